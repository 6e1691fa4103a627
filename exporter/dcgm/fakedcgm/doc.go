// Package fakedcgm is a test fake of NVIDIA's libdcgm.so.4, written in C and
// steered through a file. The libnvidia-ml.so.1 beside it is fakenvml's, of
// the same machine.
//
// It owns the C source in c/, what the state file has beside fakenvml's machine, and the compiling
// of the two libraries. A process started with LD_LIBRARY_PATH pointing at them and
// FAKENVML_STATE naming the file takes the same cgo path as on a real machine.
// The fake follows the semantics of DCGM's headers: version words are checked,
// values that are not there are blank, unwatched fields give no data, watched
// ones are sampled at their interval and carry the time of the sample. A remote host engine is
// a line of the state: the library connects to no address and answers for it.
//
// Shapes, numbers and prototypes are those of the headers that come with go-dcgm. Checked on
// 2026-11-27 against DCGM 4.6.0's own library: the field table and, over one machine of
// fakenvml's, the MIG hierarchy with its entity ids. On 2026-11-23, against the sources of
// DCGM 4.5.2 and 4.6.0: that field 230 has no data before the first XID, that XIDs stand on
// GPU and compute instances in MIG mode, what is read from the kernel log and that a restart
// reads it again, DCGM_HEALTH_WATCH_ALL, and the NVLink status of 18 and of 36 links. On
// 2026-11-28, against the sources of 4.6.0: how groups and watches are refused, that no group takes
// a lost or a detached GPU and health passes it over, what is still known of one, that a connection's
// last watch of a field counts, and that no GPU has slices outside MIG mode. Known differences: what
// is no longer watched has no old samples, the driver's values always come in the order that they were
// asked for, every connection has watches of its own, samples are taken again when the
// state changes, reads of what is not watched and of the MIG hierarchy are logged
// (FAKEDCGM_LOG) and not slow, and every GPU can profile unless the state says otherwise.
//
// It never copies DCGM itself, holds no policy, and is linked into no program:
// it exists to be loaded by tests and by the sandbox.
package fakedcgm
