package nvml

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// gpmMetrics are the profiling fields that GPM has, from Hopper on, and what a
// GPM unit is in DCGM's: percent to a ratio, MiB/s to bytes per second.
var gpmMetrics = []struct {
	field  uint16
	metric nvml.GpmMetricId
	factor float64
}{
	{1001, nvml.GPM_METRIC_GRAPHICS_UTIL, 0.01}, {1002, nvml.GPM_METRIC_SM_UTIL, 0.01}, {1003, nvml.GPM_METRIC_SM_OCCUPANCY, 0.01},
	{1004, nvml.GPM_METRIC_ANY_TENSOR_UTIL, 0.01}, {1005, nvml.GPM_METRIC_DRAM_BW_UTIL, 0.01},
	{1006, nvml.GPM_METRIC_FP64_UTIL, 0.01}, {1007, nvml.GPM_METRIC_FP32_UTIL, 0.01}, {1008, nvml.GPM_METRIC_FP16_UTIL, 0.01},
	{1009, nvml.GPM_METRIC_PCIE_TX_PER_SEC, mebibyte}, {1010, nvml.GPM_METRIC_PCIE_RX_PER_SEC, mebibyte},
	{1011, nvml.GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, mebibyte}, {1012, nvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, mebibyte},
}

// gpm measures profiling metrics between two samples of each entity: a mean
// over the interval between two Reads.
type gpm struct {
	lib    *library
	usable bool            // the library has GPM
	able   map[string]bool // whether a GPU can be measured, by UUID
	before map[place]nvml.GpmSample
}

// has reports whether a GPU can be measured. That depends on its generation, so it is asked once, as DCGM does when
// it attaches to a GPU (DcgmCacheManager.cpp of 4.6.0); only a refusal is repeated.
func (g *gpm) has(uuid string, dev nvml.Device) bool {
	able, known := g.able[uuid]
	if g.usable && !known {
		answer, ret := dev.GpmQueryDeviceSupport()
		if able = answer.IsSupportedDevice != 0; ret == nvml.SUCCESS {
			g.able[uuid] = able
		}
	}
	return able
}

// read samples an entity and gives the wanted metrics since the sample before:
// nothing at the first one. instance is -1 for the whole GPU.
func (g *gpm) read(at place, dev nvml.Device, wanted func(uint16) bool, got func(field uint16, value float64, ret nvml.Return)) {
	sample, ret := g.lib.GpmSampleAlloc()
	if ret != nvml.SUCCESS {
		return
	}
	if at.instance < 0 {
		ret = dev.GpmSampleGet(sample)
	} else {
		ret = dev.GpmMigSampleGet(at.instance, sample)
	}
	before, again := g.before[at]
	request := nvml.GpmMetricsGetType{Sample1: before, Sample2: sample}
	var fields []uint16
	var factors []float64
	for _, m := range gpmMetrics {
		if wanted(m.field) {
			fields, factors = append(fields, m.field), append(factors, m.factor)
			request.Metrics[request.NumMetrics].MetricId = uint32(m.metric)
			request.NumMetrics++
		}
	}
	switch {
	case ret != nvml.SUCCESS:
		_ = sample.Free()
	case again:
		ret = g.lib.GpmMetricsGet(&request)
		_ = before.Free()
		g.before[at] = sample
	default:
		ret = nvml.ERROR_NO_DATA
		g.before[at] = sample
	}
	for i, field := range fields {
		if answer := request.Metrics[i]; ret != nvml.SUCCESS {
			got(field, 0, ret)
		} else {
			got(field, answer.Value*factors[i], nvml.Return(answer.NvmlReturn))
		}
	}
}

// forget frees the samples of entities that were not seen in a Read.
func (g *gpm) forget(seen map[place]bool) {
	for at, sample := range g.before {
		if !seen[at] {
			_ = sample.Free()
			delete(g.before, at)
		}
	}
}

// place is a GPU or an instance of it.
type place struct {
	uuid     string
	instance int // GPU instance id; -1 for the whole GPU
}
