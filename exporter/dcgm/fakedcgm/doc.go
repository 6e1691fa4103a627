// Package fakedcgm is a test fake of NVIDIA's libdcgm.so.4, written in C and
// steered through a file. The libnvidia-ml.so.1 beside it is fakenvml's, of
// the same machine.
//
// It owns the C source in c/, the compiling of the two libraries, and the part of fakenvml.State that
// only DCGM reads. A process started with LD_LIBRARY_PATH pointing at them and FAKENVML_STATE naming
// the file takes the same cgo path as on a real machine. The fake follows the semantics of DCGM's
// headers: version words are checked, values that are not there are blank, unwatched fields give no
// data, watched ones carry the time of a sample at their interval. A remote host engine is a line of
// the state: the library connects to no address and answers for it.
//
// Shapes, numbers and prototypes are those of the headers that come with go-dcgm. Checked on
// 2026-11-27 against DCGM 4.6.0's own library: the field table and, over one machine of
// fakenvml's, the MIG hierarchy with its entity ids. Checked on 2026-11-23 against the sources of
// DCGM 4.5.2 and 4.6.0: field 230 has no data before the first XID, XIDs are recorded on
// GPU and compute instances in MIG mode, which XIDs are read from the kernel log and that a restart
// reads them again, DCGM_HEALTH_WATCH_ALL, and the NVLink status of 18 and of 36 links. Checked on
// 2026-11-28 against the sources of 4.6.0: how groups and watches are refused, no group takes a lost or
// a detached GPU and health skips it, what is still known of such a GPU, a connection's last watch of a
// field counts, and no GPU has slices outside MIG mode. Checked on the same day against 4.6.0's own
// library over fakenvml: the field table again, XIDs of GPUs and of compute instances, loss and return,
// releases, and a host engine that is killed, stopped and started. Also there: each answer of the health
// watches logs each finding, and findings of XIDs last until the host engine ends, even after a reset.
//
// Known differences:
//   - An entity that is gone or no longer watched has no old samples. Except for XIDs, a watch has
//     only its last sample, and samples are taken again when the state changes.
//   - The driver's values always come in the order in which they were requested.
//   - Every connection has watches of its own.
//   - Calls and reads of what is not watched are logged (FAKEDCGM_LOG).
//   - The MIG hierarchy is not slow.
//   - Every GPU can profile unless the state says otherwise.
//
// DCGM's number of a GPU is its index; its instances and compute instances are each numbered from the
// multiple of its compute slices on, in NVML's order of profiles. Values of GPUs and instances have
// fields by Field, and of GPUs also
//
//	away 1          DCGM does not list it
//	detached 1      the driver no longer has it: DCGM lists it and knows its name, its values are blank
//	profiled F F …  the fields it can profile, where they are not 1001 … 1012
//
// Fields that follow from the rest of the machine (name, UUID, MIG mode, total memory, last XID) need
// not be set. A field that DCGM measures on GPUs only has the GPU's value on its instances. A lost
// GPU reads blank. Lines of the machine are fakenvml's and
//
//	incident.N GPU SYSTEM RESULT CODE   the N-th finding of the health system; the GPU's number,
//	                     DCGM_HEALTH_WATCH_*, 10 a warning or 20 a failure, DCGM_FR_*
//	peer.FROM.TO STATUS  a peer-to-peer status that is not 0
//	links36 1            DCGM 4.6, which knows 36 links of a GPU; before there were 18
//
// It never copies DCGM itself, holds no policy, and is linked into no program:
// it exists to be loaded by tests and by the sandbox.
package fakedcgm
