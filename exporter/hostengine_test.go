package main

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

// machine has a whole GPU and one with instances, as the driver reports them:
// no utilization in MIG mode, profiling on instances. A host engine is at engineAddress.
func machine() fakenvml.State {
	h100, _ := mig.ForModel("H100-80GB")
	device := func(i int, fields map[uint16]float64) fakenvml.GPU {
		return fakenvml.GPU{
			UUID: fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i), Name: "NVIDIA H100 80GB HBM3", Minor: i,
			MemoryMiB: 81559, Spec: h100.Spec(), Values: fakedcgm.Fields(fields),
		}
	}
	instance := func(id, start, compute, memory int, fields map[uint16]float64) fakenvml.Instance {
		return fakenvml.Instance{
			ID: id, Placement: mig.Placement{Profile: mig.Profile{Compute: compute, Memory: memory}, Start: start},
			Computes: fakenvml.Whole(fmt.Sprintf("MIG-00000000-0000-0000-0001-%012d", id)), Values: fakedcgm.Fields(fields),
		}
	}
	partitioned := device(1, map[uint16]float64{155: 300})
	partitioned.MIG = true
	partitioned.Instances = []fakenvml.Instance{
		instance(1, 0, 3, 4, map[uint16]float64{1001: 0.7, 252: 1000}), instance(9, 4, 1, 1, map[uint16]float64{1001: 0.5, 252: 10}),
	}
	return fakenvml.State{Engine: engineAddress + " 1", Driver: "580.65.06", GPUs: []fakenvml.GPU{
		device(0, map[uint16]float64{203: 80, 1001: 0.75, 155: 321.5, 156: 2_000_000, 252: 4096}), partitioned,
	}}
}

// onMachine runs an exporter with fake libraries, which read their state, the machine, from a file. set changes the
// machine.
func onMachine(t *testing.T, lib string, state fakenvml.State, args ...string) (e *exporter, set func(fakenvml.State)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	set = func(s fakenvml.State) {
		t.Helper()
		require.NoError(t, s.Write(path))
	}
	set(state)
	t.Setenv("LD_LIBRARY_PATH", lib)
	t.Setenv(fakenvml.EnvState, path)
	return start(t, append(args, "-c", "100")...), set
}

// engineAddress is the address of the machine's remote host engine.
const engineAddress = "127.0.0.1:5555"

// startRemote is onMachine beside a remote host engine.
func startRemote(t *testing.T, state fakenvml.State, args ...string) (e *exporter, set func(fakenvml.State)) {
	t.Helper()
	return onMachine(t, fakeDCGM(t), state, append(args, "-r", engineAddress)...)
}

// oncePerGPU waits for a page with a series of each of the two GPUs. More series are always wrong. Fewer are right for
// a moment, if the values became stale on a busy machine.
func oncePerGPU(t *testing.T, base, series string) {
	t.Helper()
	until(t, series+" of each GPU", func() (bool, string) {
		_, body := get(t, base+"/metrics")
		n := strings.Count(body, "\n"+series)
		if n > 2 {
			t.Fatalf("%s stands %d times, want once a GPU:\n%s", series, n, body)
		}
		return n == 2, body
	})
}

func TestHostEngine(t *testing.T) {
	state := machine()
	e, set := onMachine(t, fakeDCGM(t), state)
	e.has(t,
		`gpu_busy_ratio{node="node-1",gpu="0",gpu_uuid="GPU-00000000-0000-0000-0000-000000000000",model="NVIDIA H100 80GB HBM3"} 0.75`,
		`gpu_instance_info{node="node-1",gpu="1",gpu_uuid="GPU-00000000-0000-0000-0000-000000000001",gpu_instance_id="9",profile="1g.10gb",start="4",size="1",instance_uuid="MIG-00000000-0000-0000-0001-000000000009"} 1`,
		`gpu_instance_id="1",profile="3g.40gb"} 0.7`,
		`gpu_share_ratio{node="node-1",gpu="1",gpu_uuid="GPU-00000000-0000-0000-0000-000000000001",model="NVIDIA H100 80GB HBM3",gpu_instance_id="1",profile="3g.40gb"} 0.`,
		`gpu_energy_joules_total{node="node-1",gpu="0",gpu_uuid="GPU-00000000-0000-0000-0000-000000000000",model="NVIDIA H100 80GB HBM3"} 2000`,
		`GPU_I_PROFILE="1g.10gb",GPU_I_ID="9",hostname="node-1",DCGM_FI_DRIVER_VERSION="580.65.06"} 10`,
	)
	oncePerGPU(t, e.base, "gpu_power_watts{")

	// The layout changes without a restart.
	state.GPUs[1].Instances = state.GPUs[1].Instances[:1]
	set(state)
	until(t, "the instance is gone", func() (bool, string) {
		_, body := get(t, e.base+"/metrics")
		return !strings.Contains(body, `gpu_instance_id="9"`), body
	})
}

// While DCGM hangs scrapes are served without values, and SIGTERM ends the exporter.
func TestHostEngineHangs(t *testing.T) {
	state := machine()
	r, set := startRemote(t, state)
	hang := func(d time.Duration) {
		state.Lines = fakenvml.Lines{"hang_ms": fmt.Sprint(d.Milliseconds())}
		set(state)
	}
	r.has(t, "gpu_busy_ratio{")
	hang(time.Hour) // a call that waits for it hangs the test
	r.notReady(t, "")
	if code, body := get(t, r.base+"/metrics"); code != http.StatusOK || strings.Contains(body, "gpu_busy_ratio{") {
		t.Errorf("/metrics = %d while the host engine hangs:\n%s", code, body)
	}
	if code, why := get(t, r.base+"/livez"); code != http.StatusOK {
		t.Errorf("/livez = %d %s: a restart mends no hanging driver", code, why)
	}
	hang(0)
	r.has(t, "gpu_busy_ratio{")
	hang(time.Hour)
	r.notReady(t, "")
	r.terminate(t)
}

// Series that dcgm-exporter computes, and series of devices beside the GPUs.
func TestComputedSeries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counters.csv")
	write(t, file, `DCGM_EXP_XID_ERRORS_COUNT, gauge, x
DCGM_EXP_XID_ERRORS_TOTAL, counter, x
DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, x
DCGM_EXP_CLOCK_EVENTS_TOTAL, counter, x
DCGM_EXP_GPU_HEALTH_STATUS, gauge, x
DCGM_EXP_P2P_STATUS, gauge, x
DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT, gauge, x
`)
	state := machine()
	state.GPUs[0].Values[fakedcgm.Field(112)] = "4"
	state.Lines = fakenvml.Lines{"incident.0": "0 1 10 3", "peer.0.1": "3"}
	state.Parts = []fakenvml.Part{{Kind: fakedcgm.KindSwitch, Values: fakenvml.Lines{fakedcgm.Field(858): "41"}}}
	r, set := startRemote(t, state, "-f", file, "--clock-events-count-window-size", "60000")
	const device = `{gpu="0",UUID="GPU-00000000-0000-0000-0000-000000000000",pci_bus_id="00000000:01:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",hostname="node-1"`
	r.has(t, `DCGM_EXP_XID_ERRORS_COUNT`+device+`,window_size_in_ms="300000"} 0`)
	state.GPUs[0].XIDs = []fakenvml.XID{{Code: 43, At: time.Now().UnixMicro()}}
	state.GPUs[0].Values[fakedcgm.Field(112)] = "68"
	set(state)
	r.has(t,
		`DCGM_EXP_XID_ERRORS_COUNT`+device+`,window_size_in_ms="300000",xid="43"} 1`,
		`DCGM_EXP_XID_ERRORS_TOTAL`+device+`,xid="43"} 1`,
		`DCGM_EXP_CLOCK_EVENTS_COUNT`+device+`,window_size_in_ms="60000",clock_event="power_cap"} `,
		`DCGM_EXP_CLOCK_EVENTS_TOTAL`+device+`,clock_event="hw_thermal"} 1`,
		`DCGM_EXP_GPU_HEALTH_STATUS`+device+`,health_watch="PCIE",health_error_code="DCGM_FR_PCI_REPLAY_RATE"} 10`,
		`DCGM_EXP_GPU_HEALTH_STATUS`+device+`,health_watch="MEM",health_error_code="DCGM_FR_OK"} 0`,
		`DCGM_EXP_P2P_STATUS`+device+`,peer_gpu="1",link_status="TopologyNotSupported"} 3`,
		`DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch="nvswitch0",hostname="node-1"} 41`,
	)
}

// A machine with the driver's library and without DCGM's: a partitioned GPU and a whole one, which are allocated to
// mixedPods.
func TestWithoutDCGM(t *testing.T) {
	if installed("libdcgm.so.4") {
		t.Skip("this machine has a libdcgm.so.4 of its own")
	}
	values := func(more map[string]string) map[string]string {
		all := map[string]string{"memory": "85520809984 4294967296 536870912", "power": "321500", "energy": "2000000", "gpm.1": "75"}
		maps.Copy(all, more)
		return all
	}
	h100, _ := mig.ForModel("H100-80GB")
	state := fakenvml.State{Driver: "580.65.06", GPUs: []fakenvml.GPU{{
		UUID: "GPU-aaaaaaaa-0000-0000-0000-000000000000", Name: "NVIDIA H100 80GB HBM3", PCIBusID: "00000000:01:00.0",
		MIG: true, Spec: h100.Spec(), GPM: true, XIDs: fakenvml.XIDs(), Values: values(nil),
		Instances: []fakenvml.Instance{{
			ID: 1, Placement: mig.Placement{Profile: mig.Profile{Compute: 3, Memory: 4}}, Computes: fakenvml.Whole("MIG-11111111-0000-0000-0000-000000000000"),
			Values: fakenvml.Lines{"memory": "41943040 2097152 0", "gpm.1": "70"},
		}},
	}, {
		UUID: "GPU-bbbbbbbb-0000-0000-0000-000000000000", Name: "NVIDIA L40S", PCIBusID: "00000000:02:00.0", Minor: 1, XIDs: fakenvml.XIDs(),
		Values: values(map[string]string{"util": "37 12"}),
	}}}
	lib, err := fakenvml.Build(t.Context(), "")
	e, set := onMachine(t, built(t, lib, err), state, "-k", "--pod-resources-kubelet-socket", serveKubelet(t))
	if output := e.log.String(); !strings.Contains(output, "no libdcgm.so.4 here: reading the driver's NVML") {
		t.Errorf("nothing says what is read:\n%s", output)
	}
	e.has(t,
		`gpu_busy_ratio{node="node-1",gpu="1",gpu_uuid="GPU-bbbbbbbb-0000-0000-0000-000000000000",model="NVIDIA L40S",namespace="batch",pod="train-0",container="main"} 0.37`,
		`gpu_instance_busy_ratio{node="node-1",gpu="0",gpu_uuid="GPU-aaaaaaaa-0000-0000-0000-000000000000",gpu_instance_id="1",profile="3g.40gb",namespace="chat",pod="vllm-0",container="main"} 0.7`,
		`gpu_instance_info{node="node-1",gpu="0",gpu_uuid="GPU-aaaaaaaa-0000-0000-0000-000000000000",gpu_instance_id="1",profile="3g.40gb",start="0",size="4",instance_uuid="MIG-11111111-0000-0000-0000-000000000000"} 1`,
		`gpu_energy_joules_total{node="node-1",gpu="1",gpu_uuid="GPU-bbbbbbbb-0000-0000-0000-000000000000",model="NVIDIA L40S"} 2000`,
		`hostname="node-1",DCGM_FI_DRIVER_VERSION="580.65.06",container="main",namespace="batch",pod="train-0"} 37`,
		`reason="ok"} 1`,
	)
	oncePerGPU(t, e.base, "gpu_power_watts{")

	state.GPUs[1].Lost, state.GPUs[1].XIDs = true, fakenvml.XIDs(79)
	set(state)
	e.has(t, `gpu_healthy{node="node-1",gpu="1",gpu_uuid="GPU-bbbbbbbb-0000-0000-0000-000000000000",reason="xid_79"} 0`,
		`gpu_uuid="GPU-aaaaaaaa-0000-0000-0000-000000000000",reason="ok"} 1`)
}
