package demand

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The scheduler of a fractional dialect picks the GPU and writes it in an annotation of
// the pod. The ids that its device plugin gives the kubelet name no GPU, or another
// one. So for such a pod the annotations replace the kubelet's answer.

// Annotations of the dialects.
const (
	gpushareIndex      = "ALIYUN_COM_GPU_MEM_IDX"                  // GPU index, of pods on one GPU
	gpushareAssigned   = "ALIYUN_COM_GPU_MEM_ASSIGNED"             // "true" once the plugin has handed it out
	gpushareAllocation = "scheduler.framework.gpushare.allocation" // {"container index": {"GPU index": memory}}
	gpushareMemory     = "aliyun.com/gpu-mem"

	vcudaIndex    = "tencent.com/predicate-gpu-idx-" // + container index: minor numbers
	vcudaAssigned = "tencent.com/gpu-assigned"
)

// uuidLists are annotations of HAMi and its relatives: containers separated by
// ";", each with "UUID,type,memory,cores:" for every GPU.
var uuidLists = []string{"hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new", "4pd.io/vgpu-ids-new"}

// hamiMIG is HAMi's annotation of a pod on MIG instances, from 2.10 on: a list of instances, each with the place of
// its GPU in the list of UUIDs. An instance has a UUID once it is made (pkg/device/nvidia/mig_allocations.go).
const hamiMIG = "hami.io/vgpu-mig-allocations"

type hamiInstance struct {
	ContainerIndex, DeviceIndex int
	MIGUUID                     string
}

// containerKey is a dialect's annotation of a container. Its key is prefix and the container's
// name, or with byIndex prefix and the container's index. Its value has the numbers of GPUs; the
// id of a GPU is before and its number. It counts only if the pod's annotation assumed is "true".
type containerKey struct {
	prefix, assumed, before string
	byIndex                 bool
}

// containerKeys are those of Elastic GPU, qGPU's scheduler and vCUDA.
var containerKeys = []containerKey{
	{"elasticgpu.io/container-", "elasticgpu.io/assumed", "", false},
	{"nano-gpu/container-", "nano-gpu/assume", "", false},
	{vcudaIndex, vcudaAssigned, "nvidia", true},
}

// Container is a container of a pod. Lists are in the order of the pod's spec, init containers
// last.
type Container struct {
	Name string
	Init bool
	// Resources are the names of the requested resources: "aliyun.com/gpu-mem".
	Resources []string
}

// Allocated is a GPU that a dialect's scheduler has chosen for a container.
type Allocated struct {
	Container int // index
	// ID of the GPU: its UUID, its index, or "nvidia" and its minor number.
	ID string
	// MIGDevice is the UUID of the MIG device on it; empty for a part of the GPU itself.
	MIGDevice string
}

// FromAnnotations returns the GPUs that a pod's annotations state. The error names the
// first annotation that cannot be read; the GPUs of the others are returned too.
func FromAnnotations(annotations map[string]string, containers []Container) ([]Allocated, error) {
	p := annotated{annotations: annotations, containers: containers}
	bad := cmp.Or(p.uuidList(), p.gpushare()) // both are called
	for _, dialect := range containerKeys {
		bad = cmp.Or(bad, p.containerKeyed(dialect))
	}
	return p.all, bad
}

type annotated struct {
	annotations map[string]string
	containers  []Container
	all         []Allocated
}

// add adds a container's GPU, by the container's index in the pod's spec.
func (p *annotated) add(container int, key, id string) error {
	if container < 0 || container >= len(p.containers) {
		return fmt.Errorf("annotation %s: container %d, the pod has %d", key, container, len(p.containers))
	}
	p.all = append(p.all, Allocated{Container: container, ID: id})
	return nil
}

// uuidList reads the lists of UUIDs. From HAMi 2.9 on a list has an entry for every container,
// init containers first. Earlier lists and Volcano's have none for init containers.
func (p *annotated) uuidList() error {
	first := slices.IndexFunc(p.containers, func(c Container) bool { return c.Init })
	var instances []hamiInstance
	if text := p.annotations[hamiMIG]; text != "" {
		if err := json.Unmarshal([]byte(text), &instances); err != nil {
			return fmt.Errorf("annotation %s: %w", hamiMIG, err)
		}
	}
	for _, key := range uuidLists {
		entries := strings.Split(strings.TrimSuffix(p.annotations[key], ";"), ";")
		for entry, container := range entries {
			i := entry
			if first >= 0 && len(entries) == len(p.containers) {
				i = (i + first) % len(p.containers)
			}
			for k, device := range strings.Split(container, ":") {
				if device == "" {
					continue
				}
				uuid, _, more := strings.Cut(device, ",")
				if !more || !strings.HasPrefix(uuid, "GPU-") && !strings.HasPrefix(uuid, "MIG-") {
					return fmt.Errorf("annotation %s: %q is not \"UUID,type,memory,cores\"", key, device)
				}
				if err := p.add(i, key, uuid); err != nil {
					return err
				}
				for _, m := range instances {
					if m.ContainerIndex == entry && m.DeviceIndex == k {
						p.all[len(p.all)-1].MIGDevice = m.MIGUUID
					}
				}
			}
		}
	}
	return nil
}

func (p *annotated) gpushare() error {
	if text := p.annotations[gpushareAllocation]; text != "" {
		return p.gpushareMany(text)
	}
	text := p.annotations[gpushareIndex]
	if text == "" || !strings.EqualFold(p.annotations[gpushareAssigned], "true") {
		return nil
	}
	if !isIndex(text) {
		return fmt.Errorf("annotation %s: %q is not a GPU index", gpushareIndex, text)
	}
	for i, c := range p.containers {
		if slices.Contains(c.Resources, gpushareMemory) {
			p.all = append(p.all, Allocated{Container: i, ID: text})
		}
	}
	return nil
}

func (p *annotated) gpushareMany(text string) error {
	var allocation map[string]map[string]json.Number
	if err := json.Unmarshal([]byte(text), &allocation); err != nil {
		return fmt.Errorf("annotation %s: %w", gpushareAllocation, err)
	}
	for _, container := range slices.Sorted(maps.Keys(allocation)) {
		if !isIndex(container) {
			return fmt.Errorf("annotation %s: %q is not a container index", gpushareAllocation, container)
		}
		i, _ := strconv.Atoi(container)
		for _, device := range slices.Sorted(maps.Keys(allocation[container])) {
			if !isIndex(device) {
				return fmt.Errorf("annotation %s: %q is not a GPU index", gpushareAllocation, device)
			}
			if err := p.add(i, gpushareAllocation, device); err != nil {
				return err
			}
		}
	}
	return nil
}

// containerKeyed reads a dialect's annotations of the containers: "0,2" is two GPUs.
func (p *annotated) containerKeyed(dialect containerKey) error {
	for i, c := range p.containers {
		key := dialect.prefix + c.Name
		if dialect.byIndex {
			key = dialect.prefix + strconv.Itoa(i)
		}
		text := p.annotations[key]
		if text == "" || p.annotations[dialect.assumed] != "true" {
			continue
		}
		for _, index := range strings.Split(text, ",") {
			index = strings.TrimSpace(index)
			if !isIndex(index) {
				return fmt.Errorf("annotation %s: %q is not a GPU index", key, index)
			}
			if err := p.add(i, key, dialect.before+index); err != nil {
				return err
			}
		}
	}
	return nil
}

func isIndex(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
