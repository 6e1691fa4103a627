package pods

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/exporter/collect"
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

// annotated returns the claims that a pod's annotations state. An error names
// the annotation; the claims of the others stand.
func annotated(p *Pod) ([]Claim, error) {
	var claims []Claim
	var bad error
	for _, read := range []func(*Pod) ([]Claim, error){uuidList, gpushare, containerKeyed, vcuda} {
		found, err := read(p)
		claims = append(claims, found...)
		if bad == nil {
			bad = err
		}
	}
	return claims, bad
}

// claim is a container's claim of a device by its index in the pod's spec.
func (p *Pod) claim(container int, key, id string) (Claim, error) {
	if container < 0 || container >= len(p.Containers) {
		return Claim{}, fmt.Errorf("annotation %s: container %d, the pod has %d", key, container, len(p.Containers))
	}
	allocation := collect.Allocation{Namespace: p.Namespace, Pod: p.Name, Container: p.Containers[container].Name}
	return Claim{Resource: key, DeviceID: id, Allocation: allocation}, nil
}

func uuidList(p *Pod) (claims []Claim, err error) {
	for _, key := range uuidLists {
		for i, container := range strings.Split(p.Annotations[key], ";") {
			for _, device := range strings.Split(container, ":") {
				if device == "" {
					continue
				}
				uuid, _, more := strings.Cut(device, ",")
				if !more || !strings.HasPrefix(uuid, "GPU-") && !strings.HasPrefix(uuid, "MIG-") {
					return claims, fmt.Errorf("annotation %s: %q is not \"UUID,type,memory,cores\"", key, device)
				}
				c, err := p.claim(i, key, uuid)
				if err != nil {
					return claims, err
				}
				claims = append(claims, c)
			}
		}
	}
	return claims, nil
}

func gpushare(p *Pod) (claims []Claim, err error) {
	if text := p.Annotations[gpushareAllocation]; text != "" {
		return gpushareMany(p, text)
	}
	text := p.Annotations[gpushareIndex]
	if text == "" || !strings.EqualFold(p.Annotations[gpushareAssigned], "true") {
		return nil, nil
	}
	if _, err := number(text); err != nil {
		return nil, fmt.Errorf("annotation %s: %q is no GPU index", gpushareIndex, text)
	}
	for i, c := range p.Containers {
		if slices.Contains(c.Resources, gpushareMemory) {
			c, _ := p.claim(i, gpushareIndex, text)
			claims = append(claims, c)
		}
	}
	return claims, nil
}

func gpushareMany(p *Pod, text string) (claims []Claim, err error) {
	var allocation map[string]map[string]json.Number
	if err := json.Unmarshal([]byte(text), &allocation); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", gpushareAllocation, err)
	}
	for _, container := range slices.Sorted(maps.Keys(allocation)) {
		i, err := number(container)
		if err != nil {
			return claims, fmt.Errorf("annotation %s: %q is no container index", gpushareAllocation, container)
		}
		for _, device := range slices.Sorted(maps.Keys(allocation[container])) {
			if _, err := number(device); err != nil {
				return claims, fmt.Errorf("annotation %s: %q is no GPU index", gpushareAllocation, device)
			}
			c, err := p.claim(i, gpushareAllocation, device)
			if err != nil {
				return claims, err
			}
			claims = append(claims, c)
		}
	}
	return claims, nil
}

func containerKeyed(p *Pod) (claims []Claim, err error) {
	for _, dialect := range containerKeys {
		if p.Annotations[dialect.assumed] != "true" {
			continue
		}
		for i, c := range p.Containers {
			found, err := p.indexes(i, dialect.prefix+c.Name, "")
			claims = append(claims, found...)
			if err != nil {
				return claims, err
			}
		}
	}
	return claims, nil
}

func vcuda(p *Pod) (claims []Claim, err error) {
	if p.Annotations[vcudaAssigned] != "true" {
		return nil, nil
	}
	for i := range p.Containers {
		found, err := p.indexes(i, vcudaIndex+strconv.Itoa(i), "nvidia")
		claims = append(claims, found...)
		if err != nil {
			return claims, err
		}
	}
	return claims, nil
}

// indexes reads an annotation "0,2" as claims of a container; before stands
// before each number to make a device id of it.
func (p *Pod) indexes(container int, key, before string) (claims []Claim, err error) {
	text, ok := p.Annotations[key]
	if !ok || text == "" {
		return nil, nil
	}
	for _, index := range strings.Split(text, ",") {
		index = strings.TrimSpace(index)
		if _, err := number(index); err != nil {
			return claims, fmt.Errorf("annotation %s: %q is no GPU index", key, index)
		}
		c, err := p.claim(container, key, before+index)
		if err != nil {
			return claims, err
		}
		claims = append(claims, c)
	}
	return claims, nil
}
