package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
)

// remote is an exporter beside a host engine of its own process.
type remote struct {
	t           *testing.T
	base, state string
	process     *os.Process
	ended       chan error
	lib         string
	engine      *fakedcgm.Engine
}

func startRemote(t *testing.T, state fakedcgm.State, args ...string) *remote {
	t.Helper()
	lib, err := fakedcgm.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	r := &remote{t: t, state: filepath.Join(t.TempDir(), "state"), lib: lib, ended: make(chan error, 1)}
	r.set(state)
	r.engine = r.startEngine("127.0.0.1:0")
	t.Setenv("LD_LIBRARY_PATH", lib)
	cmd, base := start(t, append(args, "-c", "100", "-r", r.engine.Address)...)
	r.base, r.process = base, cmd.Process
	go func() { r.ended <- cmd.Wait() }()
	return r
}

func (r *remote) set(s fakedcgm.State) {
	r.t.Helper()
	if err := s.Write(r.state); err != nil {
		r.t.Fatal(err)
	}
}

func (r *remote) startEngine(address string) *fakedcgm.Engine {
	r.t.Helper()
	e, err := fakedcgm.StartEngine(r.t.Context(), r.lib, address, r.state)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(e.Kill)
	return e
}

func (r *remote) notReady(why string) {
	r.t.Helper()
	until(r.t, "not ready: "+why, func() (bool, string) {
		code, said := get(r.t, r.base+"/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(said, why), said
	})
}

// The host engine is killed twice and started again; XIDs are counted once.
func TestHostEngineIsKilled(t *testing.T) {
	state := machine()
	r := startRemote(t, state)
	metricsHave(t, r.base, "gpu_busy_ratio{")
	state.Cards[0].XIDs = []fakedcgm.XID{{Code: 31, At: time.Now()}, {Code: 31, At: time.Now().Add(time.Millisecond)}}
	r.set(state)
	const counted = `gpu_xid_errors_total{node="node-1",gpu="0",gpu_uuid="GPU-00000000-0000-0000-0000-000000000000",xid="31"} 2`
	metricsHave(t, r.base, counted)
	for range 2 {
		r.engine.Kill()
		r.notReady("connecting to the DCGM host engine")
		if code, body := get(t, r.base+"/metrics"); code != http.StatusOK || strings.Contains(body, "gpu_busy_ratio{") {
			t.Errorf("/metrics = %d while there is no host engine:\n%s", code, body)
		}
		r.engine = r.startEngine(r.engine.Address)
		metricsHave(t, r.base, "gpu_busy_ratio{", counted)
	}
	select {
	case err := <-r.ended:
		t.Fatalf("the exporter ended: %v", err)
	default:
	}
}

// SIGTERM is obeyed within 5 s whatever DCGM does.
func TestEndsWhileDCGMHangs(t *testing.T) {
	state := machine()
	r := startRemote(t, state)
	metricsHave(t, r.base, "gpu_busy_ratio{")
	state.HangFor = 45 * time.Second
	r.set(state)
	r.notReady("")
	if err := r.process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("SIGTERM does not end it while DCGM hangs")
	}
}

// A host engine that has found no driver says so, and so does the exporter.
func TestHostEngineWithoutDriver(t *testing.T) {
	state := machine()
	state.NoNVML = true
	r := startRemote(t, state)
	r.notReady("without NVIDIA's driver library (NVML)")
	state.NoNVML = false
	r.set(state)
	metricsHave(t, r.base, "gpu_busy_ratio{")
}

// A card falls off the bus and comes back; the other one goes on.
func TestCardIsLostAndBack(t *testing.T) {
	const health = `gpu_healthy{node="node-1",gpu="0",gpu_uuid="GPU-00000000-0000-0000-0000-000000000000",reason=`
	const other = `gpu_healthy{node="node-1",gpu="1",gpu_uuid="GPU-00000000-0000-0000-0000-000000000001",reason="ok"} 1`
	state := machine()
	r := startRemote(t, state)
	metricsHave(t, r.base, health+`"ok"} 1`)
	state.Cards[0].Lost = true
	r.set(state)
	metricsHave(t, r.base, health+`"lost"} 0`, other)
	state.Cards[0].XIDs = []fakedcgm.XID{{Code: 79, At: time.Now()}}
	r.set(state)
	metricsHave(t, r.base, health+`"xid_79"} 0`, other)
	state.Cards[0].Lost = false
	r.set(state)
	metricsHave(t, r.base, health+`"ok"} 1`, other, `xid="79"} 1`)
}

// What dcgm-exporter computes, and what is beside the cards.
func TestComputedSeries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counters.csv")
	csv := `DCGM_EXP_XID_ERRORS_COUNT, gauge, x
DCGM_EXP_XID_ERRORS_TOTAL, counter, x
DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, x
DCGM_EXP_CLOCK_EVENTS_TOTAL, counter, x
DCGM_EXP_GPU_HEALTH_STATUS, gauge, x
DCGM_EXP_P2P_STATUS, gauge, x
DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT, gauge, x
`
	if err := os.WriteFile(file, []byte(csv), 0o600); err != nil {
		t.Fatal(err)
	}
	state := machine()
	state.Cards[0].Fields[112] = 4
	state.Incidents = []fakedcgm.Incident{{GPU: 0, System: 0x1, Result: 10, Code: 3}}
	state.Peers = []fakedcgm.Peer{{From: 0, To: 1, Status: 3}}
	state.Switches = []fakedcgm.Switch{{ID: 0, Fields: fakedcgm.Fields{858: 41}}}
	r := startRemote(t, state, "-f", file, "--clock-events-count-window-size", "60000")
	// A host engine at an address is another host: the hostname label names it.
	const card = `{gpu="0",UUID="GPU-00000000-0000-0000-0000-000000000000",pci_bus_id="00000000:01:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",hostname="127.0.0.1"`
	metricsHave(t, r.base, `DCGM_EXP_XID_ERRORS_COUNT`+card+`,window_size_in_ms="300000"} 0`)
	state.Cards[0].XIDs = []fakedcgm.XID{{Code: 43, At: time.Now()}}
	state.Cards[0].Fields[112] = 0x44
	r.set(state)
	metricsHave(t, r.base,
		`DCGM_EXP_XID_ERRORS_COUNT`+card+`,window_size_in_ms="300000",xid="43"} 1`,
		`DCGM_EXP_XID_ERRORS_TOTAL`+card+`,xid="43"} 1`,
		`DCGM_EXP_CLOCK_EVENTS_COUNT`+card+`,window_size_in_ms="60000",clock_event="power_cap"} `,
		`DCGM_EXP_CLOCK_EVENTS_TOTAL`+card+`,clock_event="hw_thermal"} 1`,
		`DCGM_EXP_GPU_HEALTH_STATUS`+card+`,health_watch="PCIE",health_error_code="DCGM_FR_PCI_REPLAY_RATE"} 10`,
		`DCGM_EXP_GPU_HEALTH_STATUS`+card+`,health_watch="MEM",health_error_code="DCGM_FR_OK"} 0`,
		`DCGM_EXP_P2P_STATUS`+card+`,peer_gpu="1",link_status="TopologyNotSupported"} 3`,
		`DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch="nvswitch0",hostname="127.0.0.1"} 41`,
	)
}
