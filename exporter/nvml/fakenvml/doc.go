// Package fakenvml is a test fake of the driver's libnvidia-ml.so.1, written
// in C and steered through a text file.
//
// It owns the C source in c/, the state file that says what the pretended
// machine looks like, and the compiling of the library. A process started with
// FAKENVML_STATE naming the file and the library as its libnvidia-ml.so.1 takes
// the same cgo path as on a real machine. The fake has the calls that the
// exporter makes and answers them as the driver does, refusals included. It is
// linked into no program.
package fakenvml
