// Package fakenvml is a fake of the driver's libnvidia-ml.so.1, written in C, with
// the files that the driver shows beside it. The simulated machine is a file, State as
// JSON, which the library reads and, where MIG layouts change, writes: like hardware, it
// keeps its layout when the process that changes it is killed.
//
// The package owns the C sources in c/ and machine/, and the folders that stand in for
// the driver's own. A process that finds the library as its libnvidia-ml.so.1, with
// FAKENVML_STATE naming the file, takes the same path as on a real machine. It is linked
// into no program. What layouts are possible is defined by the products' geometries in
// the file, which come from gpu/mig.
//
// Prototypes, structures and numbers are those of nvml.h, which comes with go-nvml; return
// codes were checked on 2026-11-23 against its comments of v0.13.3-1.
//
// Programs that ran over it on 2026-11-28: gpu-feature-discovery of k8s-device-plugin v0.19.3 and
// nvidia-mig-parted v0.13.1 (export, assert, apply) with go-nvlib v0.10.0, mig-parted's packages with
// go-nvlib v0.12.0, NVIDIA's DRA driver (gpu-kubelet-plugin at 2240711), which made the instances of
// DynamicMIG through it, and the host engine of DCGM 4.6.0. Earlier, and not since the C was rewritten:
// k8s-device-plugin itself and DCGM 4.5.2.
//
// Compared on 2026-11-26, call by call, with an H100 and an H200 with driver 580.159.04, MIG off:
// profiles and placements are known then, nvmlDeviceGetProcessUtilization returns empty slots, and which
// device files are open. Compared on 2026-11-28 with NVIDIA's MIG user guide (v580) and with transcripts
// of nvidia-smi on A30, A100, H100 and RTX PRO 6000: the numbers of profiles, the ids of instances and
// the placements that nvmlDeviceCreateGpuInstance chooses; on some GPUs the ids of the two halves are
// swapped. On 2026-11-29 the exporter also ran over NVIDIA's own mock of the library (k8s-test-infra at
// 3b2b865d, which makes no MIG instances), with XIDs 48 and 79, a lost GPU and one that is back; and the host
// engine of DCGM 4.6.0 over this library, with dcgm-exporter at d5e5f51 beside ours, XIDs of instances and another
// MIG layout.
//
// Not checked against a GPU in MIG mode. What NVIDIA's sources do not say is a guess: the
// multiprocessors and engines of a slice, for example, are those of A100.
package fakenvml
