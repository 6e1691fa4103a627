// Package fakedcgm is a test fake of NVIDIA's libdcgm.so.4, written in C and
// steered through a text file. The libnvidia-ml.so.1 beside it is fakenvml's, of
// the same machine.
//
// It owns the C source in c/, the state file that says what the pretended
// machine looks like, and the compiling of the two libraries and of a host
// engine that runs in a process of its own, on TCP or a unix socket, and can be
// killed. A process started with LD_LIBRARY_PATH pointing at them and
// FAKEDCGM_STATE naming the file takes the same cgo path as on a real machine.
// The fake follows the semantics of DCGM's headers: version words are checked,
// values that are not there are blank, unwatched fields give no data, watched
// ones are sampled at their interval and carry the time of the sample. Library
// and host engine use a protocol of their own, in one process or two.
//
// It never copies DCGM itself, holds no policy, and is linked into no program:
// it exists to be loaded by tests and by the sandbox.
package fakedcgm
