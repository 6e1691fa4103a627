package states

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/exporter/replay"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/plan"
)

// machine is a node's exporter: its compiler over its replay source. The GPUs are a fake, written as a recording, and
// the kubelet's answer is a fake too.
type machine struct {
	compiler *collect.Compiler
	gpus     map[string]*gpuState // by name, "n1/0"
}

// gpuState is the state of a GPU.
type gpuState struct {
	log    *collect.EventLog
	millij float64
}

// eccCounters are those that docs/report.md adds to the default ones.
const eccCounters = `DCGM_FI_DEV_ECC_SBE_VOL_TOTAL, counter, Single-bit errors since the driver was loaded.
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL, counter, Double-bit errors since the driver was loaded.
`

func newMachine(node string) (*machine, error) {
	fields, err := counters.Default()
	more, also := counters.Parse("states.csv", strings.NewReader(eccCounters))
	return &machine{
		gpus: map[string]*gpuState{},
		compiler: collect.NewCompiler(collect.Options{Node: node, Interval: Every, Compat: collect.CompatOptions{
			Mode: collect.CompatExact, Hostname: node, Counters: append(fields, more.Fields...),
		}}),
	}, errors.Join(err, also)
}

// expose is the exporter's page of a node at a time.
func (m *machine) expose(c *cluster, n *plan.Node, now time.Time) ([]memstore.Exposed, error) {
	var frame replay.Frame
	for i := range n.GPUs {
		frame.GPUs = append(frame.GPUs, m.record(c, n, &n.GPUs[i], now))
	}
	if len(n.GPUs) == 0 {
		return []memstore.Exposed{}, nil
	}
	source, err := replay.NewSource([]replay.Frame{frame}, func() time.Time { return now })
	if err != nil {
		return nil, err
	}
	reading, err := source.Read()
	if err != nil {
		return nil, err
	}
	for i := range reading.Entities {
		e := &reading.Entities[i]
		if e.Kind == collect.GPU {
			e.Events = m.events(c, fmt.Sprintf("%s/%d", n.Name, e.GPU), now)
		}
	}
	attribution, unresolved := pods.Resolve(reading.Entities, claims(n), nil)
	if len(unresolved) > 0 {
		return nil, fmt.Errorf("node %s: containers have unknown devices: %q", n.Name, unresolved)
	}
	attribution.Taken = now
	page, _ := m.compiler.Compile(reading, attribution).Append(nil, now, false)
	return parse(page)
}

func (m *machine) dev(name string) *gpuState {
	s := m.gpus[name]
	if s == nil {
		s = &gpuState{log: collect.NewEventLog(5 * time.Minute)}
		m.gpus[name] = s
	}
	return s
}

// events returns the story's XIDs of a GPU.
func (m *machine) events(c *cluster, name string, now time.Time) *collect.Events {
	s := m.dev(name)
	for i, code := range c.xids[name] {
		s.log.AddXID(collect.Event{Time: now.Add(time.Duration(i-len(c.xids[name])) * time.Millisecond), Code: int64(code)})
	}
	delete(c.xids, name)
	return s.log.Snapshot(now)
}

// product is the driver's name of a model.
var product = map[string]string{"H100-80GB": "NVIDIA H100 80GB HBM3", "L40S": "NVIDIA L40S", "A30-24GB": "NVIDIA A30"}

// record is a GPU with its instances and their busy ratio.
func (m *machine) record(c *cluster, n *plan.Node, dev *plan.GPU, now time.Time) replay.Entity {
	name := fmt.Sprintf("%s/%d", n.Name, dev.Index)
	memory := cmp.Or(dev.Model.MemoryMiB, 81559)
	out := replay.Entity{Entity: collect.Entity{
		GPU: dev.Index, UUID: uuid(n, dev), Model: product[dev.Model.Name], PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 16*dev.Index+7),
		DriverVersion: "580.65.06", MIG: dev.MIG,
	}}
	table, partitions := mig.ForModel(dev.Model.Name)
	if partitions {
		out.GPUMaxCompute = table.ComputeSlices()
	}
	busy := busiest(dev.AllocatedTo, now)
	for i := range dev.Instances {
		busy += busyOf(dev.Instances[i].AllocatedTo, now) * float64(dev.Instances[i].Profile.Compute) / float64(table.ComputeSlices())
	}
	watts, warm := 70+560*busy, math.Round(34+38*busy)
	slowed := 0.0
	if c.hot[name] {
		warm, slowed = 91, 0x40
	}
	s := m.dev(name)
	s.millij += watts * 1000 * Every.Seconds()
	corrected, uncorrected := float64(c.ecc[name].corrected), float64(c.ecc[name].uncorrected)
	out.Values = map[string]any{
		"DCGM_FI_DEV_POWER_USAGE": watts, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": s.millij,
		"DCGM_FI_DEV_GPU_TEMP": warm, "DCGM_FI_DEV_MEMORY_TEMP": warm + 6,
		"DCGM_FI_DEV_SM_CLOCK": 1980 - 10*slowed, "DCGM_FI_DEV_MEM_CLOCK": 2619.0, "DCGM_FI_DEV_XID_ERRORS": 0.0,
		"112": slowed, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0.0,
		"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": uncorrected, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": math.Floor(corrected / 8),
		"DCGM_FI_DEV_ROW_REMAP_FAILURE": 0.0, "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": corrected, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": uncorrected,
	}
	if !dev.MIG {
		used := 0.0
		if len(dev.AllocatedTo) > 0 {
			used = 0.3 + 0.6*busy
		}
		out.Values["DCGM_FI_DEV_GPU_UTIL"], out.Values["DCGM_FI_DEV_FB_TOTAL"] = 100*busy, float64(memory)
		maps.Copy(out.Values, figures(busy, used, memory))
		return out
	}
	for i := range dev.Instances {
		in := &dev.Instances[i]
		size := memory * in.Profile.Memory / table.MemorySlices()
		used := 0.0
		if in.AllocatedTo != "" {
			used = 0.25 + 0.5*busyOf(in.AllocatedTo, now)
		}
		out.Instances = append(out.Instances, replay.Entity{
			Entity: collect.Entity{
				InstanceID: in.Start + 1, Profile: table.Name(in.Profile), Start: in.Start, Size: in.Profile.Memory,
				ComputeSlices: in.Profile.Compute, InstanceUUID: instanceUUID(n, dev, in),
			},
			Values: figures(busyOf(in.AllocatedTo, now), used, size),
		})
	}
	return out
}

func figures(busy, used float64, memory int) map[string]any {
	return map[string]any{
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE": busy, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 0.6 * busy, "DCGM_FI_PROF_DRAM_ACTIVE": 0.4 * busy,
		"DCGM_FI_DEV_FB_USED": used * float64(memory), "DCGM_FI_DEV_FB_FREE": (1 - used) * float64(memory), "DCGM_FI_DEV_FB_RESERVED": 0.0,
	}
}

func uuid(n *plan.Node, dev *plan.GPU) string {
	return fmt.Sprintf("GPU-%s-%d", n.Name, dev.Index)
}

func instanceUUID(n *plan.Node, dev *plan.GPU, in *plan.Instance) string {
	return fmt.Sprintf("MIG-%s-%d-%d-%d", n.Name, dev.Index, in.Start, in.Profile.Memory)
}

// claims are the kubelet's allocations of devices.
func claims(n *plan.Node) []pods.Claim {
	var out []pods.Claim
	give := func(holder, device string) {
		namespace, pod, ok := strings.Cut(holder, "/")
		if ok {
			out = append(out, pods.Claim{DeviceID: device, Allocation: collect.Allocation{Namespace: namespace, Pod: pod, Container: "main"}})
		}
	}
	for i := range n.GPUs {
		dev := &n.GPUs[i]
		for k, holder := range dev.AllocatedTo {
			device := uuid(n, dev)
			if len(dev.AllocatedTo) > 1 {
				device += fmt.Sprintf("::%d", k)
			}
			give(holder, device)
		}
		for k := range dev.Instances {
			give(dev.Instances[k].AllocatedTo, instanceUUID(n, dev, &dev.Instances[k]))
		}
	}
	return out
}
