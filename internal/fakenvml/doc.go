// Package fakenvml is a fake of the driver's libnvidia-ml.so.1, written in C, with
// the files that the driver shows beside it. The simulated machine is a text
// file, which the library reads and, where MIG layouts change, writes: like
// hardware, it keeps its layout when the process that changes it is killed.
//
// The package owns the C sources in c/, the file's format, and the folders that
// stand in for the driver's own. A process that finds the library as its
// libnvidia-ml.so.1, with FAKENVML_STATE naming the file, takes the same path as
// on a real machine. It is linked into no program. What layouts are possible is
// defined by the profiles in the file, which come from gpu/mig.
package fakenvml
