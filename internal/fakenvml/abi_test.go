//go:build cgo

package fakenvml

import (
	"strings"
	"testing"
)

// called are the functions that each program calls on a GPU of a data center. Those of NVIDIA's programs are from their
// sources.
var called = map[string]string{
	"go-nvml v0.13.3-1, for all": `Init_v2 Shutdown ErrorString SystemGetDriverVersion SystemGetNVMLVersion SystemGetCudaDriverVersion
		DeviceGetCount_v2 DeviceGetHandleByIndex_v2 DeviceGetHandleByUUID DeviceGetHandleByPciBusId_v2`,
	"k8s-device-plugin v0.19.3": `DeviceGetAttributes_v2 DeviceGetComputeInstanceId DeviceGetCudaComputeCapability DeviceGetDeviceHandleFromMigDeviceHandle
		DeviceGetGpuFabricInfo DeviceGetGpuInstanceId DeviceGetMemoryInfo DeviceGetMinorNumber DeviceGetName DeviceGetPciInfo_v3 DeviceGetSupportedEventTypes
		DeviceGetUUID DeviceRegisterEvents EventSetCreate EventSetFree EventSetWait_v2`,
	"go-nvlib v0.10.0": `ComputeInstanceGetInfo_v2 DeviceGetAddressingMode DeviceGetArchitecture DeviceGetBrand DeviceGetGpuFabricInfoV DeviceGetGpuInstanceById
		DeviceGetGpuInstanceProfileInfo DeviceGetGpuInstanceProfileInfoV DeviceGetMaxMigDeviceCount DeviceGetMigDeviceHandleByIndex DeviceGetMigMode
		DeviceIsMigDeviceHandle GpuInstanceGetComputeInstanceById GpuInstanceGetComputeInstanceProfileInfo GpuInstanceGetInfo`,
	"go-gpuallocator v0.6.0":           `DeviceGetNvLinkRemotePciInfo_v2 DeviceGetNvLinkState DeviceGetTopologyCommonAncestor`,
	"nvidia-container-toolkit v1.19.1": `DeviceGetIndex`,
	"mig-parted v0.13.1": `ComputeInstanceDestroy DeviceCreateGpuInstance DeviceCreateGpuInstanceWithPlacement DeviceGetGpuInstances DeviceSetMigMode
		GpuInstanceCreateComputeInstance GpuInstanceDestroy GpuInstanceGetComputeInstances`,
	"NVIDIA's DRA driver at 2240711":            `DeviceGetVirtualizationMode`,
	"DCGM v4.5.2, without which it has no GPUs": `ComputeInstanceGetInfo InitWithFlags`,
	"gpuscale": `DeviceGetClockInfo DeviceGetComputeRunningProcesses_v3 DeviceGetCurrentClocksThrottleReasons DeviceGetDecoderUtilization
		DeviceGetEncoderUtilization DeviceGetEnforcedPowerLimit DeviceGetFieldValues DeviceGetGpuInstancePossiblePlacements_v2
		DeviceGetGraphicsRunningProcesses_v3 DeviceGetMemoryInfo_v2 DeviceGetMPSComputeRunningProcesses_v3 DeviceGetPcieReplayCounter DeviceGetPowerUsage
		DeviceGetProcessUtilization DeviceGetRemappedRows DeviceGetRetiredPages DeviceGetRetiredPagesPendingStatus DeviceGetTemperature
		DeviceGetTotalEccErrors DeviceGetTotalEnergyConsumption DeviceGetUtilizationRates DeviceGetViolationStatus GpmMetricsGet GpmMigSampleGet
		GpmQueryDeviceSupport GpmSampleAlloc GpmSampleFree GpmSampleGet`,
}

// TestFunctions: the library has each function; a call of a missing one would end the program.
func TestFunctions(t *testing.T) {
	driver, _ := loaded(t, State{Driver: "580.159.03"})
	for program, names := range called {
		for _, name := range strings.Fields(names) {
			if err := driver.Extensions().LookupSymbol("nvml" + name); err != nil {
				t.Errorf("%s: %v", program, err)
			}
		}
	}
	if driver.Extensions().LookupSymbol("nvmlNothing") == nil {
		t.Error("every name is found")
	}
}
