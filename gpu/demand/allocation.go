package demand

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A fractional dialect's scheduler picks the GPU and writes it on the pod; the
// ids that its device plugin gives the kubelet are tokens that name no GPU, or
// another one. For such a pod the annotations replace the kubelet's answer.

// Annotations of the dialects.
const (
	gpushareIndex      = "ALIYUN_COM_GPU_MEM_IDX"                  // GPU index, of pods on one GPU
	gpushareAssigned   = "ALIYUN_COM_GPU_MEM_ASSIGNED"             // "true" once the plugin has handed it out
	gpushareAllocation = "scheduler.framework.gpushare.allocation" // {"container index": {"GPU index": memory}}
	gpushareMemory     = "aliyun.com/gpu-mem"

	vcudaIndex    = "tencent.com/predicate-gpu-idx-" // + container index: minor numbers
	vcudaAssigned = "tencent.com/gpu-assigned"
)

// uuidLists are annotations of HAMi and its relatives: containers divided by
// ";", each with "UUID,type,memory,cores:" for every GPU.
var uuidLists = []string{"hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new", "4pd.io/vgpu-ids-new"}

// containerKeys are annotations of Elastic GPU and qGPU's scheduler: behind the
// prefix the container's name, and as value GPU indexes.
var containerKeys = []struct{ prefix, assumed string }{
	{"elasticgpu.io/container-", "elasticgpu.io/assumed"},
	{"nano-gpu/container-", "nano-gpu/assume"},
}

// Container of a pod, in the order of the pod's spec, init containers last.
type Container struct {
	Name string
	Init bool
	// Resources are the requested names: "aliyun.com/gpu-mem".
	Resources []string
}

// Allocated is a GPU that a dialect's scheduler has chosen for a container.
type Allocated struct {
	Container int // index
	// ID of the GPU: its UUID, its index, or "nvidia" and its minor number.
	ID string
}

// FromAnnotations returns the GPUs that a pod's annotations state. An error names
// the annotation; what the others state stands.
func FromAnnotations(annotations map[string]string, containers []Container) ([]Allocated, error) {
	p := annotated{annotations, containers}
	var all []Allocated
	var bad error
	for _, read := range []func() ([]Allocated, error){p.uuidList, p.gpushare, p.containerKeyed, p.vcuda} {
		found, err := read()
		all = append(all, found...)
		if bad == nil {
			bad = err
		}
	}
	return all, bad
}

type annotated struct {
	annotations map[string]string
	containers  []Container
}

// gpu is a container's GPU, by the container's index in the pod's spec.
func (p *annotated) gpu(container int, key, id string) (Allocated, error) {
	if container < 0 || container >= len(p.containers) {
		return Allocated{}, fmt.Errorf("annotation %s: container %d, the pod has %d", key, container, len(p.containers))
	}
	return Allocated{container, id}, nil
}

// uuidList reads the lists of UUIDs. HAMi from 2.9 on has an entry of every container, init
// containers first; before, and in Volcano, there is none of init containers.
func (p *annotated) uuidList() (all []Allocated, err error) {
	first := slices.IndexFunc(p.containers, func(c Container) bool { return c.Init })
	for _, key := range uuidLists {
		entries := strings.Split(strings.TrimSuffix(p.annotations[key], ";"), ";")
		for i, container := range entries {
			if first >= 0 && len(entries) == len(p.containers) {
				i = (i + first) % len(p.containers)
			}
			for _, device := range strings.Split(container, ":") {
				if device == "" {
					continue
				}
				uuid, _, more := strings.Cut(device, ",")
				if !more || !strings.HasPrefix(uuid, "GPU-") && !strings.HasPrefix(uuid, "MIG-") {
					return all, fmt.Errorf("annotation %s: %q is not \"UUID,type,memory,cores\"", key, device)
				}
				a, err := p.gpu(i, key, uuid)
				if err != nil {
					return all, err
				}
				all = append(all, a)
			}
		}
	}
	return all, nil
}

func (p *annotated) gpushare() (all []Allocated, err error) {
	if text := p.annotations[gpushareAllocation]; text != "" {
		return p.gpushareMany(text)
	}
	text := p.annotations[gpushareIndex]
	if text == "" || !strings.EqualFold(p.annotations[gpushareAssigned], "true") {
		return nil, nil
	}
	if !isIndex(text) {
		return nil, fmt.Errorf("annotation %s: %q is no GPU index", gpushareIndex, text)
	}
	for i, c := range p.containers {
		if slices.Contains(c.Resources, gpushareMemory) {
			all = append(all, Allocated{i, text})
		}
	}
	return all, nil
}

func (p *annotated) gpushareMany(text string) (all []Allocated, err error) {
	var allocation map[string]map[string]json.Number
	if err := json.Unmarshal([]byte(text), &allocation); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", gpushareAllocation, err)
	}
	for _, container := range slices.Sorted(maps.Keys(allocation)) {
		if !isIndex(container) {
			return all, fmt.Errorf("annotation %s: %q is no container index", gpushareAllocation, container)
		}
		i, _ := strconv.Atoi(container)
		for _, device := range slices.Sorted(maps.Keys(allocation[container])) {
			if !isIndex(device) {
				return all, fmt.Errorf("annotation %s: %q is no GPU index", gpushareAllocation, device)
			}
			a, err := p.gpu(i, gpushareAllocation, device)
			if err != nil {
				return all, err
			}
			all = append(all, a)
		}
	}
	return all, nil
}

func (p *annotated) containerKeyed() (all []Allocated, err error) {
	for _, dialect := range containerKeys {
		if p.annotations[dialect.assumed] != "true" {
			continue
		}
		for i, c := range p.containers {
			found, err := p.indexes(i, dialect.prefix+c.Name, "")
			all = append(all, found...)
			if err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

func (p *annotated) vcuda() (all []Allocated, err error) {
	if p.annotations[vcudaAssigned] != "true" {
		return nil, nil
	}
	for i := range p.containers {
		found, err := p.indexes(i, vcudaIndex+strconv.Itoa(i), "nvidia")
		all = append(all, found...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// indexes reads an annotation "0,2" as GPUs of a container; before stands before
// each number to make an id of it.
func (p *annotated) indexes(container int, key, before string) (all []Allocated, err error) {
	text, ok := p.annotations[key]
	if !ok || text == "" {
		return nil, nil
	}
	for _, index := range strings.Split(text, ",") {
		index = strings.TrimSpace(index)
		if !isIndex(index) {
			return all, fmt.Errorf("annotation %s: %q is no GPU index", key, index)
		}
		a, err := p.gpu(container, key, before+index)
		if err != nil {
			return all, err
		}
		all = append(all, a)
	}
	return all, nil
}

func isIndex(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
