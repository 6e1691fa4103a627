package collect

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Allocation is a container to which a GPU, an instance or a share of one is
// allocated.
type Allocation struct {
	Namespace, Pod, Container string
}

// Allocated is an allocation of an entity: with shares, claim and measured use.
type Allocated struct {
	Allocation
	// Shares are the names of the allocated shares, "0" of "GPU-…::0"; several
	// of one GPU are possible. Empty for the whole.
	Shares []string
	// Claim is set where the entity is allocated by dynamic resource
	// allocation.
	Claim Claim
	// Busy is what the container's processes compute, 0 … 1 of the entity, and
	// Memory the bytes they use: sums of the driver's values per process.
	Busy, Memory Value
}

// common returns what an entity's allocations have in common: the only allocation; for several
// containers of one pod, the pod and the claim that they share; for several pods nothing, since
// a value of all of them belongs to no pod.
func common(list []Allocated) (out Allocated) {
	for i, h := range list {
		switch {
		case i == 0:
			out = h
		case h.Namespace != out.Namespace || h.Pod != out.Pod:
			return Allocated{}
		default:
			out.Container, out.Shares = "", nil
			if h.Claim != out.Claim {
				out.Claim = Claim{}
			}
		}
	}
	return out
}

// Claim is a DRA claim and the device it got.
type Claim struct {
	Name, Namespace      string
	Driver, Pool, Device string
	MIGProfile, MIGUUID  string // of a MIG device
}

// Attribution maps the entities of one Reading to the containers they are
// allocated to. The zero Attribution is unknown.
type Attribution struct {
	// Taken is the time of the kubelet's answer; zero before the first.
	Taken time.Time
	// Allocations[i] are those of Entities[i] of the Reading; sorted, without
	// duplicates. Several share the entity.
	Allocations [][]Allocated
	// Pods has further label text of pods' DCGM series, from PodLabels.
	Pods map[PodName]string
	// Jobs are the batch jobs on GPUs and instances: each DCGM series is repeated
	// for every job, as dcgm-exporter does.
	Jobs map[JobPlace][]string
}

// joinLabels joins rendered label texts, of which any may be empty.
func joinLabels(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), ",")
}

// PodName names a pod of this node.
type PodName struct{ Namespace, Name string }

// JobPlace is where a job runs: a GPU by index, or an instance by its GPU
// instance id, which is -1 for the GPU.
type JobPlace struct{ GPU, Instance int }

// jobs returns the batch jobs on an entity. A GPU's jobs are not those of its instances, as in
// dcgm-exporter from 4.8.2 on.
func (a Attribution) jobs(e *Entity) []string {
	if e.Kind == Instance {
		return a.Jobs[JobPlace{e.GPU, e.InstanceID}]
	}
	return a.Jobs[JobPlace{e.GPU, -1}]
}

// fixedLabels are what the exporter itself writes on DCGM series, in every mode.
var fixedLabels = []string{
	"gpu", "UUID", "uuid", "gpu_uuid", "pci_bus_id", "device", "modelName", "model_name", "GPU_I_PROFILE", "GPU_I_ID",
	"hostname", "Hostname", "nvlink", "nvswitch", "cpu", "cpucore", "peer_gpu", "link_status",
	"container", "namespace", "pod", "container_name", "pod_namespace", "pod_name", "pod_uid", "vgpu", "hpc_job",
	"err_code", "err_msg", "xid", "window_size_in_ms", "clock_event", "health_watch", "health_error_code",
	"dra_claim_name", "dra_claim_namespace", "dra_driver_name", "dra_pool_name", "dra_device_name", "dra_mig_profile", "dra_mig_device_uuid",
}

var notInLabelName = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// maxPodLabels bounds the text of a pod's labels. Each series of its GPUs repeats it, and a pod may have a megabyte of
// labels.
const maxPodLabels = 4 << 10

// PodLabels renders a pod's UID (empty: left out) and its Kubernetes labels as Prometheus'
// text. Characters that a label name cannot have become underscores, as dcgm-exporter does
// it. A name that the exporter or Prometheus uses gets the prefix "pod_label_". If names
// become equal, the later ones (in the order of the Kubernetes names) get "_conflict1" and
// so on: one pod's labels must not cost the whole scrape. Labels beyond maxPodLabels are
// left out.
func PodLabels(uid string, labels map[string]string) string {
	var b []byte
	taken := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if labels[key] == "" || len(b) > maxPodLabels {
			continue
		}
		name := labelName(key)
		for i := 1; taken[name]; i++ {
			name = labelName(notInLabelName.ReplaceAllString(key, "_") + "_conflict" + strconv.Itoa(i))
		}
		taken[name] = true
		b = appendLabel(b, name, labels[key])
	}
	return string(appendLabel(b, "pod_uid", uid))
}

// labelName returns the Prometheus label name for a Kubernetes label. It is
// never one of the exporter's own names.
func labelName(key string) string {
	name := notInLabelName.ReplaceAllString(key, "_")
	switch {
	case slices.Contains(fixedLabels, name), strings.HasPrefix(strings.ToUpper(name), "DCGM_"), strings.HasPrefix(name, "__"):
		return "pod_label_" + name
	case name == "" || name[0] >= '0' && name[0] <= '9':
		return "_" + name
	}
	return name
}
