//go:build cgo

package fakenvml

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/internal/require"
)

// shapes are structures of NVIDIA's header and the fake's own, by source file.
var shapes = map[string][][2]string{
	"device.c": {{"nvmlPciInfo_t", "pci_info"}, {"nvmlMemory_t", "memory"}, {"nvmlMemory_v2_t", "memory_v2"}, {"nvmlFieldValue_t", "field_value"},
		{"nvmlProcessInfo_t", "process"}, {"nvmlProcessUtilizationSample_t", "util_sample"}},
	"mig.c": {{"nvmlGpuInstanceProfileInfo_t", "profile_v1"}, {"nvmlGpuInstanceProfileInfo_v2_t", "profile_v2"},
		{"nvmlGpuInstancePlacement_t", "span"}, {"nvmlGpuInstanceInfo_t", "instance_info"}, {"nvmlComputeInstanceInfo_t", "compute_info"},
		{"nvmlComputeInstanceProfileInfo_t", "unsigned[9]"}, {"nvmlDeviceAttributes_t", "attributes"}},
	"events.c": {{"nvmlEventData_t", "event_data"}, {"nvmlGpmMetric_t", "gpm_metric"}, {"nvmlGpmMetricsGet_t", "gpm_metrics"}, {"nvmlGpmSupport_t", "unsigned[2]"}},
}

var exported = regexp.MustCompile(`(?m)^(?:EXPORT (?:int |const char \*)|NUMBER\(|UNSUPPORTED\()(nvml\w+)`)

// TestABI: each function is one of NVIDIA's header, and structures are of the sizes there.
func TestABI(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	header := filepath.Join(strings.TrimSpace(string(out)), "pkg", "nvml")
	if _, statErr := os.Stat(filepath.Join(header, "nvml.h")); err != nil || statErr != nil {
		t.Skip("go-nvml's header is not here:", err, statErr)
	}
	for file, pairs := range shapes {
		source, err := embedded.ReadFile("c/" + file)
		require.NoError(t, err)
		var code, known strings.Builder
		for _, m := range exported.FindAllStringSubmatch(string(source), -1) {
			fmt.Fprintf(&known, "(void *)&%s, ", m[1])
			fmt.Fprintf(&code, "#define %s fake_%s\n", m[1], m[1])
		}
		fmt.Fprintf(&code, "#include %q\n", file)
		for _, p := range pairs {
			fmt.Fprintf(&code, "_Static_assert(sizeof(%s) == sizeof(%s), %q);\n", p[0], p[1], p[0])
		}
		cmd := exec.Command("gcc", "-std=gnu11", "-fsyntax-only", "-Wno-deprecated-declarations", "-Ic", "-Ilines", "-I"+header, "-x", "c", "-")
		cmd.Stdin = strings.NewReader("#define NVML_NO_UNVERSIONED_FUNC_DEFS 1\n#include \"nvml.h\"\nvoid *const known[] = { " + known.String() + "};\n" + code.String())
		if out, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
			t.Skip(ErrNoCompiler)
		} else if err != nil || known.Len() == 0 {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// called are the functions that programs call on a GPU of a data center, by the program; those of
// NVIDIA are of their sources.
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
	"DCGM v4.5.2, without which it has no GPUs": `ComputeInstanceGetInfo InitWithFlags`,
	"gpuscale": `DeviceGetClockInfo DeviceGetComputeRunningProcesses_v3 DeviceGetCurrentClocksThrottleReasons DeviceGetDecoderUtilization
		DeviceGetEncoderUtilization DeviceGetEnforcedPowerLimit DeviceGetFieldValues DeviceGetGpuInstancePossiblePlacements_v2
		DeviceGetGraphicsRunningProcesses_v3 DeviceGetMemoryInfo_v2 DeviceGetMPSComputeRunningProcesses_v3 DeviceGetPcieReplayCounter DeviceGetPowerUsage
		DeviceGetProcessUtilization DeviceGetRemappedRows DeviceGetRetiredPages DeviceGetRetiredPagesPendingStatus DeviceGetTemperature
		DeviceGetTotalEccErrors DeviceGetTotalEnergyConsumption DeviceGetUtilizationRates DeviceGetViolationStatus GpmMetricsGet GpmMigSampleGet
		GpmQueryDeviceSupport GpmSampleAlloc GpmSampleFree GpmSampleGet`,
}

// TestFunctions: the library has each function; calling one that it lacks ends the program.
func TestFunctions(t *testing.T) {
	lib, err := Build(t.Context(), "")
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state")
	require.NoError(t, (State{Driver: "580.159.03"}).Write(path))
	t.Setenv(EnvState, path)
	driver := nvml.New(nvml.WithLibraryPath(filepath.Join(lib, Library)))
	if ret := driver.Init(); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	defer driver.Shutdown()
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

// A state that no driver has is refused.
func TestWriteRefuses(t *testing.T) {
	for name, c := range map[string]GPU{
		"GPU's UUID":         {UUID: "GPU-0"},
		"MIG device's UUID":  {UUID: GPUUUID(0), Spec: h100(), Instances: []Instance{{Placement: place(t, "1g.10gb@0"), Computes: Whole("MIG-1")}}},
		"unknown profile":    {UUID: GPUUUID(0), Instances: []Instance{{Placement: place(t, "1g.10gb@0")}}},
		"instance id":        {UUID: GPUUUID(0), Spec: h100(), Instances: []Instance{{ID: 15, Placement: place(t, "1g.10gb@0")}}},
		"compute instances":  {UUID: GPUUUID(0), Spec: h100(), Instances: []Instance{{Placement: place(t, "2g.20gb@0"), Computes: []Compute{{Slices: 2, UUID: MIGUUID(0, 0)}, {ID: 1, Slices: 1, UUID: MIGUUID(0, 1)}}}}},
		"line break in name": {UUID: GPUUUID(0), Name: "a\ngpu.0.lost 1"},
	} {
		if err := (State{GPUs: []GPU{c}}).Write(filepath.Join(t.TempDir(), "state")); err == nil {
			t.Errorf("%s: written", name)
		}
	}
}
