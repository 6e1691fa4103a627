// Package fakenvml is a fake of the driver's libnvidia-ml.so.1 for tests that change MIG layouts,
// written in C. The simulated machine is a text file, which the library reads at every call and
// writes at every change: like hardware, it keeps its layout when the process that changes it is
// killed.
//
// The package owns the C source in c/, the file's format and the compilation of the library. It is
// linked into no program. What layouts are possible is defined by the profiles in the file, which
// come from gpu/mig.
package fakenvml
