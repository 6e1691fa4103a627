// Package fakenvml is a test double of the driver's libnvidia-ml.so.1 for what
// changes MIG layouts, written in C. The machine it plays is a text file, which
// it reads at every call and writes at every change: like hardware, it keeps its
// layout when the process that was changing it is killed.
//
// It owns the C source in c/, the file's format and the compiling of the library.
// It is linked into no program and decides nothing: what may be cut is said by
// the profiles in the file, which come from gpu/mig.
package fakenvml
