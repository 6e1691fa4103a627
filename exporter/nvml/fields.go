package nvml

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

const mebibyte = 1 << 20

// nothing is a missing value in an answer with several values.
var nothing = math.NaN()

// call is one NVML function and the DCGM fields that it answers.
type call struct {
	fields []uint16
	symbol string
	// instances: it works on MIG device handles too. Other calls refuse them,
	// or return the GPU's value.
	instances bool
	// read returns a value for each field, in DCGM's unit.
	read func(nvml.Device) ([]float64, nvml.Return)
}

// one is a call that returns one number. The number divided by divisor is in
// DCGM's unit.
func one[N ~int | ~int32 | ~uint32 | ~uint64](field uint16, symbol string, divisor float64, get func(nvml.Device) (N, nvml.Return)) call {
	return call{fields: []uint16{field}, symbol: symbol, read: func(d nvml.Device) ([]float64, nvml.Return) {
		n, ret := get(d)
		return []float64{float64(n) / divisor}, ret
	}}
}

// calls are all functions that return values, except for events and GPM.
var calls = []call{
	one(100, "nvmlDeviceGetClockInfo", 1, func(d nvml.Device) (uint32, nvml.Return) { return d.GetClockInfo(nvml.CLOCK_SM) }),
	one(101, "nvmlDeviceGetClockInfo", 1, func(d nvml.Device) (uint32, nvml.Return) { return d.GetClockInfo(nvml.CLOCK_MEM) }),
	one(112, "nvmlDeviceGetCurrentClocksThrottleReasons", 1, nvml.Device.GetCurrentClocksThrottleReasons),
	numbered(140, nvml.FI_DEV_MEMORY_TEMP, 1), numbered(157, nvml.FI_DEV_POWER_INSTANT, 1000), numbered(1523, nvml.FI_DEV_GET_GPU_RECOVERY_ACTION, 1),
	one(150, "nvmlDeviceGetTemperature", 1, func(d nvml.Device) (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) }),
	one(155, "nvmlDeviceGetPowerUsage", 1000, nvml.Device.GetPowerUsage),
	one(156, "nvmlDeviceGetTotalEnergyConsumption", 1, nvml.Device.GetTotalEnergyConsumption),
	one(164, "nvmlDeviceGetEnforcedPowerLimit", 1000, nvml.Device.GetEnforcedPowerLimit),
	one(202, "nvmlDeviceGetPcieReplayCounter", 1, nvml.Device.GetPcieReplayCounter),
	{fields: []uint16{203, 204}, symbol: "nvmlDeviceGetUtilizationRates", read: func(d nvml.Device) ([]float64, nvml.Return) {
		u, ret := d.GetUtilizationRates()
		return []float64{float64(u.Gpu), float64(u.Memory)}, ret
	}},
	coder(206, "nvmlDeviceGetEncoderUtilization", nvml.Device.GetEncoderUtilization), coder(207, "nvmlDeviceGetDecoderUtilization", nvml.Device.GetDecoderUtilization),
	violation(240, nvml.PERF_POLICY_POWER), violation(241, nvml.PERF_POLICY_THERMAL), violation(242, nvml.PERF_POLICY_SYNC_BOOST),
	violation(243, nvml.PERF_POLICY_BOARD_LIMIT), violation(244, nvml.PERF_POLICY_LOW_UTILIZATION), violation(245, nvml.PERF_POLICY_RELIABILITY),
	{fields: []uint16{250, 251, 252, 253, 254}, symbol: "nvmlDeviceGetMemoryInfo_v2", instances: true, read: readMemory},
	eccErrors(310, nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC), eccErrors(311, nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC),
	eccErrors(312, nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC), eccErrors(313, nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC),
	retired(390, nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS), retired(391, nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR),
	one(392, "nvmlDeviceGetRetiredPagesPendingStatus", 1, nvml.Device.GetRetiredPagesPendingStatus),
	{fields: []uint16{393, 394, 395, 396}, symbol: "nvmlDeviceGetRemappedRows", read: func(d nvml.Device) ([]float64, nvml.Return) {
		correctable, uncorrectable, pending, failed, ret := d.GetRemappedRows()
		return []float64{float64(uncorrectable), float64(correctable), flag(failed), flag(pending)}, ret
	}},
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

func coder(field uint16, symbol string, get func(nvml.Device) (uint32, uint32, nvml.Return)) call {
	return one(field, symbol, 1, func(d nvml.Device) (uint32, nvml.Return) {
		percent, _, ret := get(d)
		return percent, ret
	})
}

// violation is how long clocks were lowered for a reason, in nanoseconds since
// the driver was loaded.
func violation(field uint16, policy nvml.PerfPolicyType) call {
	return one(field, "nvmlDeviceGetViolationStatus", 1, func(d nvml.Device) (uint64, nvml.Return) {
		v, ret := d.GetViolationStatus(policy)
		return v.ViolationTime, ret
	})
}

func eccErrors(field uint16, kind nvml.MemoryErrorType, since nvml.EccCounterType) call {
	return one(field, "nvmlDeviceGetTotalEccErrors", 1, func(d nvml.Device) (uint64, nvml.Return) { return d.GetTotalEccErrors(kind, since) })
}

func retired(field uint16, cause nvml.PageRetirementCause) call {
	return one(field, "nvmlDeviceGetRetiredPages", 1, func(d nvml.Device) (int, nvml.Return) {
		pages, ret := d.GetRetiredPages(cause)
		return len(pages), ret
	})
}

// readMemory returns total, free, used and reserved memory in whole MiB, as DCGM does, and
// the used part of the usable memory.
func readMemory(d nvml.Device) ([]float64, nvml.Return) {
	m, ret := d.GetMemoryInfo_v2()
	percent := nothing
	if usable := m.Used + m.Free; usable > 0 {
		percent = float64(m.Used) / float64(usable)
	}
	mib := func(bytes uint64) float64 { return float64(bytes / mebibyte) }
	return []float64{mib(m.Total), mib(m.Free), mib(m.Used), mib(m.Reserved), percent}, ret
}

// numbered reads one of NVML's own numbered fields. The number divided by divisor is
// in DCGM's unit.
func numbered(field uint16, id uint32, divisor float64) call {
	return call{fields: []uint16{field}, symbol: "nvmlDeviceGetFieldValues", read: func(d nvml.Device) ([]float64, nvml.Return) {
		values := []nvml.FieldValue{{FieldId: id}}
		if ret := d.GetFieldValues(values); ret != nvml.SUCCESS {
			return nil, ret
		}
		v := values[0] // an unsigned int, also where driver r545 calls the memory's temperature a double (nvbugs 4300930)
		return []float64{float64(binary.NativeEndian.Uint32(v.Value[:])) / divisor}, nvml.Return(v.NvmlReturn)
	}}
}

// Fields returns the DCGM fields that a Source can give, sorted; which of them
// a GPU has is known when it is read.
func Fields() []uint16 {
	fields := []uint16{1, collect.FieldXID} // 1 is the driver's version
	for _, c := range calls {
		fields = append(fields, c.fields...)
	}
	for _, m := range gpmMetrics {
		fields = append(fields, m.field)
	}
	slices.Sort(fields)
	return fields
}
