package demand

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// sharer is how nodes state GPUs that a scheduler's dialect divides. A node without NVIDIA's
// labels states them nowhere else.
type sharer struct {
	name       string // of the dialect, as in a pool's template
	count      string // resource: the number of GPUs
	hundredths string // resource: 100 for each GPU
	memory     string // resource: of all GPUs together
	unit       int64  // of memory, in MiB
	// Labels of the node: the number of GPUs, the memory of each, the product.
	countLabel, memoryLabel, productLabel string
	// register is an annotation of the node that lists its GPUs.
	register string
	// beside are resources that pods request and no node advertises.
	beside []string
	// number is the resource that counts places, several on each GPU.
	number string
}

// sharers is checked against gpushare-scheduler-extender (pkg/utils), gpu-manager
// (pkg/types, pkg/services/watchdog), elastic-gpu-scheduler (pkg/scheduler),
// nano-gpu-scheduler (pkg/types), HAMi (protocol design), volcano-vgpu-device-plugin
// (README), and the documentation of ACK and TKE.
var sharers = []sharer{
	{
		name: "gpushare", count: "aliyun.com/gpu-count", hundredths: "aliyun.com/gpu-core.percentage", memory: "aliyun.com/gpu-mem", unit: 1024,
		countLabel: "aliyun.accelerator/nvidia_count", memoryLabel: "aliyun.accelerator/nvidia_mem", productLabel: "aliyun.accelerator/nvidia_name",
	},
	{name: "qgpu", hundredths: "tke.cloud.tencent.com/qgpu-core", memory: "tke.cloud.tencent.com/qgpu-memory", unit: 1024, beside: []string{greedy}},
	{name: "vcuda", hundredths: "tencent.com/vcuda-core", memory: "tencent.com/vcuda-memory", unit: 256, productLabel: "gaia.tencent.com/gpu-model"},
	{name: "elasticgpu", hundredths: "elasticgpu.io/gpu-core", memory: "elasticgpu.io/gpu-memory", unit: 1},
	{name: "nano-gpu", hundredths: "nano-gpu/gpu-percent"},
	{
		name: "hami", register: "hami.io/node-nvidia-register", number: "nvidia.com/gpu",
		hundredths: "nvidia.com/gpucores", memory: "nvidia.com/gpumem", unit: 1, // only simulated nodes advertise these
		beside: []string{"nvidia.com/gpumem-percentage"},
	},
	{
		name: "volcano", register: "volcano.sh/node-vgpu-register", number: "volcano.sh/vgpu-number",
		hundredths: "volcano.sh/vgpu-cores", memory: "volcano.sh/vgpu-memory", unit: 1,
		beside: []string{"volcano.sh/vgpu-memory-percentage"},
	},
	{name: "volcano-gpushare", count: "volcano.sh/gpu-number", memory: "volcano.sh/gpu-memory", unit: 1},
}

// greedy is qGPU's compute of offline pods, which take what others leave idle.
const greedy = "tke.cloud.tencent.com/qgpu-core-greedy"

// Divided is the GPUs of a node that a dialect divides.
type Divided struct {
	Dialect   string
	GPUs      int
	MemoryMiB int      // of each, as the scheduler counts it; 0 for not stated
	Product   string   // as the node states it; empty for not stated
	UUIDs     []string // by index, where stated
	Unhealthy []string // UUIDs of the GPUs that no pod gets
	Places    int      // pods that may share each, 0 for no known limit
	// Whole is set where the node also serves requests for whole GPUs by the device
	// plugin's own name, nvidia.com/gpu. Elsewhere no such request is served.
	Whole bool
	// Offers are the resources that pods of the dialect request, with the amounts
	// that all GPUs have together. Memory of gpushare is in MiB, see Counted.
	Offers map[string]int64
}

// resources are all resources of the dialect's nodes and pods.
func (s *sharer) resources() []string {
	return append([]string{s.hundredths, s.memory, s.count, s.number}, s.beside...)
}

func (s *sharer) whole() bool { return s.number == "nvidia.com/gpu" }

// maxDivided bounds the GPUs of a node.
const maxDivided = 64

// FromNode reads the GPUs of a node that one of the dialects divides: its
// allocatable resources, labels and annotations. It is false for any other node.
func FromNode(allocatable map[string]int64, labels, annotations map[string]string) (Divided, bool) {
	for i := range sharers {
		s := &sharers[i]
		if d, ok := s.registered(allocatable, annotations); ok {
			return d, true
		}
		if d, ok := s.advertised(allocatable, labels); ok {
			return d, true
		}
	}
	return Divided{}, false
}

func (s *sharer) advertised(allocatable map[string]int64, labels map[string]string) (Divided, bool) {
	memory, hundredths := allocatable[s.memory], allocatable[s.hundredths]
	if memory <= 0 && hundredths <= 0 {
		return Divided{}, false
	}
	count, _ := strconv.ParseInt(labels[s.countLabel], 10, 64)
	count = cmp.Or(max(allocatable[s.count], 0), hundredths/100, max(count, 0))
	d := Divided{Dialect: s.name, GPUs: int(min(max(count, 1), maxDivided)), Product: labels[s.productLabel], Whole: s.whole() || allocatable["nvidia.com/gpu"] > 0, Offers: map[string]int64{}}
	for _, name := range s.resources() {
		if n := allocatable[name]; n > 0 && dialects[name].kind != other {
			d.Offers[name] = n
		}
	}
	each, unit := memory/int64(d.GPUs), s.unit
	if s.memory == gpushareMemory && each > mostGiB {
		unit = 1
	}
	d.MemoryMiB = int(min(each, maxAmount) * unit)
	if s.memory == gpushareMemory && memory > 0 {
		d.Offers[s.memory] = int64(d.MemoryMiB) * int64(d.GPUs)
	}
	if mib, err := strconv.Atoi(strings.TrimSuffix(labels[s.memoryLabel], "MiB")); err == nil && mib > 0 && d.MemoryMiB == 0 {
		d.MemoryMiB = mib
	}
	return d, true
}

// registered reads an annotation that lists GPUs. It is JSON; before HAMi 2.5, and in
// Volcano, it is "UUID,count,memory,…:". HAMi's scheduler heeds a GPU's health only in the
// JSON, which leaves out a health of false.
func (s *sharer) registered(allocatable map[string]int64, annotations map[string]string) (Divided, bool) {
	text := annotations[s.register]
	if s.register == "" || text == "" || allocatable[s.number] <= 0 {
		return Divided{}, false
	}
	type device struct {
		ID            string
		Count, DevMem int
		Type          string
		Health        bool
	}
	var devices []device
	if json.Unmarshal([]byte(text), &devices) != nil {
		devices = devices[:0]
		for _, one := range strings.Split(text, ":") {
			fields := strings.Split(one, ",")
			if len(fields) < 5 {
				continue
			}
			count, err1 := strconv.Atoi(fields[1])
			memory, err2 := strconv.Atoi(fields[2])
			if err1 != nil || err2 != nil || memory < 0 {
				return Divided{}, false
			}
			kind := fields[3]
			if _, err := strconv.Atoi(kind); err == nil { // HAMi has the compute before the type
				kind = fields[4]
			}
			devices = append(devices, device{fields[0], count, memory, kind, true})
		}
	}
	if len(devices) == 0 || len(devices) > maxDivided {
		return Divided{}, false
	}
	d := Divided{Dialect: s.name, GPUs: len(devices), Product: devices[0].Type, MemoryMiB: devices[0].DevMem, Places: devices[0].Count, Whole: s.whole()}
	for _, device := range devices {
		d.Places = min(d.Places, max(device.Count, 0))
		d.UUIDs = append(d.UUIDs, device.ID)
		if !device.Health {
			d.Unhealthy = append(d.Unhealthy, device.ID)
		}
		d.MemoryMiB = min(d.MemoryMiB, max(device.DevMem, 0))
	}
	d.Offers = s.offers(d.GPUs, d.MemoryMiB)
	if !d.Whole {
		d.Offers[s.number] = allocatable[s.number]
	}
	return d, true
}

// offers returns the resources that gpus GPUs of mib MiB each offer to pods of the dialect.
func (s *sharer) offers(gpus, mib int) map[string]int64 {
	out := map[string]int64{}
	for _, name := range append([]string{s.hundredths, s.memory}, s.beside...) {
		d := dialects[name]
		switch {
		case name == gpushareMemory:
			out[name] = int64(mib) * int64(gpus) // see Counted
		case d.kind == memoryMiB:
			out[name] = int64(mib) / d.unit * int64(gpus)
		case d.kind != other:
			out[name] = 100 * int64(gpus)
		}
	}
	return out
}

// Registers reports whether an annotation of nodes lists their GPUs.
func Registers(annotation string) bool {
	return slices.ContainsFunc(sharers, func(s sharer) bool { return s.register != "" && s.register == annotation })
}

// Dialects are the names of the dialects that divide GPUs, sorted.
func Dialects() []string {
	var out []string
	for _, s := range sharers {
		out = append(out, s.name)
	}
	slices.Sort(out)
	return out
}

// placesOfGPU is how many pods may share a GPU by default, in HAMi and Volcano.
const placesOfGPU = 10

// Divide returns what a node with gpus GPUs of memoryMiB each offers in a dialect.
func Divide(dialect string, gpus, memoryMiB int) (Divided, error) {
	i := slices.IndexFunc(sharers, func(s sharer) bool { return s.name == dialect })
	if i < 0 {
		return Divided{}, fmt.Errorf("%q is not a dialect: want one of %s", dialect, strings.Join(Dialects(), ", "))
	}
	s := &sharers[i]
	d := Divided{Dialect: s.name, GPUs: gpus, MemoryMiB: memoryMiB, Whole: s.whole(), Offers: s.offers(gpus, memoryMiB)}
	if s.count != "" { // gpushare's is only of nodes: no pod requests it
		d.Offers[s.count] = int64(gpus)
	}
	if s.number != "" {
		d.Places = placesOfGPU
	}
	if s.number != "" && !d.Whole {
		d.Offers[s.number] = int64(gpus) * placesOfGPU
	}
	return d, nil
}

// own are the resources that only nodes of one dialect offer.
var own = func() map[string]bool {
	out := map[string]bool{}
	for _, s := range sharers {
		for _, name := range s.resources() {
			if dialects[name].kind != other && name != "nvidia.com/gpu" {
				out[name] = true
			}
		}
	}
	return out
}()

// Hint reports whether a requested resource is only a hint: no node has an amount of it, and
// the scheduler does not count it. HAMi's is a pod's priority on its GPU.
func Hint(resource string) bool { return resource == "nvidia.com/priority" }

// Counted returns the amount of a resource that only nodes of one dialect offer. It is
// false for any other resource. gpushare counts memory in GiB or MiB, by a setting of the
// cluster; the returned amount is in MiB.
func Counted(resource string, amount int64) (int64, bool) {
	if resource == gpushareMemory && amount <= mostGiB {
		amount *= 1024
	}
	return amount, own[resource]
}

// Exclusive returns the demand with all compute and memory of each GPU in place of whole
// GPUs. It is for a dialect whose whole GPUs no device plugin gives. Parts that another
// container requests beside them count as whole GPUs too.
func (d Demand) Exclusive() Demand {
	if d.GPUs == 0 {
		return d
	}
	all := Fraction{CoreMilli: 1000, MemoryMilli: 1000, GPUs: d.GPUs}
	if d.Fraction != nil {
		all.GPUs += max(d.Fraction.GPUs, 1)
	}
	d.GPUs, d.Fraction = 0, &all
	return d
}

// Over returns a demand for a part of one GPU as equal parts of n GPUs, at most 64.
func (d Demand) Over(n int) Demand {
	if f := d.Fraction; f != nil && f.GPUs <= 1 && n > 1 {
		n = min(n, maxDivided)
		d.Fraction = &Fraction{CoreMilli: f.CoreMilli / n, MemoryMiB: f.MemoryMiB / n, MemoryMilli: f.MemoryMilli / n, GPUs: n}
	}
	return d
}
