package metric

import "strings"

// Label names. Node is the Kubernetes node, GPU the driver's index of a GPU.
// Namespace, Pod and Container name the container to which the GPU is allocated
// and are absent where there is none.
const (
	LabelNode          = "node"
	LabelGPU           = "gpu"
	LabelGPUUUID       = "gpu_uuid"
	LabelGPUInstanceID = "gpu_instance_id"
	LabelProfile       = "profile"
	LabelStart         = "start"
	LabelSize          = "size"
	LabelInstanceUUID  = "instance_uuid"
	LabelModel         = "model"
	LabelPCIBusID      = "pci_bus_id"
	LabelMIG           = "mig"
	LabelDriverVersion = "driver_version"
	LabelNamespace     = "namespace"
	LabelPod           = "pod"
	LabelContainer     = "container"
	LabelReason        = "reason"
	LabelXID           = "xid"

	LabelBackend   = "backend"
	LabelCause     = "cause"
	LabelCode      = "code"
	LabelFamily    = "family"
	LabelGoVersion = "go_version"
	LabelHash      = "hash"
	LabelHPA       = "hpa"
	LabelKind      = "kind"
	LabelPhase     = "phase"
	LabelPlace     = "place"
	LabelPool      = "pool"
	LabelResult    = "result"
	LabelRule      = "rule"
	LabelShape     = "shape"
	LabelSpot      = "spot"
	LabelState     = "state"
	LabelTenant    = "tenant"
	LabelVerb      = "verb"
	LabelVersion   = "version"
	LabelWorkload  = "workload"
)

// Exported is the prefix that Prometheus gives a label of the page when it scrapes without
// honor_labels and the target has a label of the same name: "exported_pod".
const Exported = "exported_"

// WithExported returns the labels, each with its name where Prometheus has renamed it.
func WithExported(labels ...string) (all []string) {
	for _, l := range labels {
		all = append(all, l)
		if !strings.HasPrefix(l, Exported) {
			all = append(all, Exported+l)
		}
	}
	return all
}
