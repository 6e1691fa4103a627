package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/internal/await"
)

// startOnDouble runs the exporter against the libdcgm.so.4 double. set changes
// what the double pretends to be.
func startOnDouble(t *testing.T, state fakedcgm.State, args ...string) (base string, set func(fakedcgm.State)) {
	t.Helper()
	dir, err := fakedcgm.Build(t.Context(), t.TempDir())
	if errors.Is(err, fakedcgm.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state")
	set = func(s fakedcgm.State) {
		if err := s.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	set(state)
	t.Setenv("LD_LIBRARY_PATH", dir)
	t.Setenv(fakedcgm.EnvState, path)
	_, base = start(t, append(args, "-c", "100")...)
	return base, set
}

// machine has a whole card and one with instances, as the driver reports them:
// no utilization in MIG mode, profiling on instances.
func machine() fakedcgm.State {
	card := func(i int, fields map[uint16]float64) fakedcgm.Card {
		return fakedcgm.Card{
			Index: i, Minor: i, UUID: fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i), Product: "NVIDIA H100 80GB HBM3",
			PCIBusID: fmt.Sprintf("00000000:%02X:00.0", i+1), MemoryMiB: 81559, Fields: fields,
		}
	}
	cut := card(1, map[uint16]float64{155: 300, 230: 0})
	cut.MIG = true
	cut.Instances = []fakedcgm.Instance{
		{ID: 1, EntityID: 7, Profile: "3g.40gb", ComputeSlices: 3, Start: 0, Size: 4, UUID: "MIG-00000000-0000-0000-0001-000000000001", Fields: map[uint16]float64{1001: 0.7, 252: 1000}},
		{ID: 9, EntityID: 8, Profile: "1g.10gb", ComputeSlices: 1, Start: 4, Size: 1, UUID: "MIG-00000000-0000-0000-0001-000000000009", Fields: map[uint16]float64{1001: 0.5, 252: 10}},
	}
	return fakedcgm.State{DriverVersion: "580.65.06", Cards: []fakedcgm.Card{
		card(0, map[uint16]float64{203: 80, 1001: 0.75, 155: 321.5, 156: 2_000_000, 230: 0, 252: 4096}), cut,
	}}
}

func until(t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	await.For(t, time.Minute, what, func() error {
		done, seen := ok()
		if !done {
			return fmt.Errorf("last seen:\n%s", seen)
		}
		return nil
	})
}

func metricsHave(t *testing.T, base string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		until(t, want, func() (bool, string) {
			_, body := get(t, base+"/metrics")
			return strings.Contains(body, want), body
		})
	}
}

// onceACard waits for a page with a series of each of the two cards. More is never
// right; fewer is right for a moment, where a busy machine let the values go stale.
func onceACard(t *testing.T, base, series string) {
	t.Helper()
	until(t, series+" of each card", func() (bool, string) {
		_, body := get(t, base+"/metrics")
		n := strings.Count(body, "\n"+series)
		if n > 2 {
			t.Fatalf("%s stands %d times, want once a card:\n%s", series, n, body)
		}
		return n == 2, body
	})
}

func TestHostEngine(t *testing.T) {
	state := machine()
	base, set := startOnDouble(t, state)
	metricsHave(t, base,
		`gpu_busy_ratio{node="node-1",gpu="0",gpu_uuid="GPU-00000000-0000-0000-0000-000000000000",model="NVIDIA H100 80GB HBM3"} 0.75`,
		`gpu_instance_info{node="node-1",gpu="1",gpu_uuid="GPU-00000000-0000-0000-0000-000000000001",gpu_instance_id="9",profile="1g.10gb",start="4",size="1",instance_uuid="MIG-00000000-0000-0000-0001-000000000009"} 1`,
		`gpu_instance_id="1",profile="3g.40gb"} 0.7`,
		`gpu_share_ratio{node="node-1",gpu="1",gpu_uuid="GPU-00000000-0000-0000-0000-000000000001",model="NVIDIA H100 80GB HBM3",gpu_instance_id="1",profile="3g.40gb"} 0.`,
		`gpu_energy_joules_total{node="node-1",gpu="0",gpu_uuid="GPU-00000000-0000-0000-0000-000000000000",model="NVIDIA H100 80GB HBM3"} 2000`,
		`GPU_I_PROFILE="1g.10gb",GPU_I_ID="9",hostname="node-1",DCGM_FI_DRIVER_VERSION="580.65.06"} 10`,
	)
	onceACard(t, base, "gpu_power_watts{")

	// The layout changes without a restart.
	state.Cards[1].Instances = state.Cards[1].Instances[:1]
	set(state)
	until(t, "the instance is gone", func() (bool, string) {
		_, body := get(t, base+"/metrics")
		return !strings.Contains(body, `gpu_instance_id="9"`), body
	})

	// The host engine dies: scrapes go on, values go, /readyz says why.
	state.Dead = true
	set(state)
	until(t, "not ready", func() (bool, string) {
		code, why := get(t, base+"/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(why, "the newest reading is"), why
	})
	if code, body := get(t, base+"/metrics"); code != http.StatusOK || strings.Contains(body, "gpu_busy_ratio{") {
		t.Errorf("/metrics = %d while the host engine is dead:\n%s", code, body)
	}
	state.Dead = false
	set(state)
	metricsHave(t, base, "gpu_busy_ratio{")
}

func TestHostEngineHangs(t *testing.T) {
	state := machine()
	base, set := startOnDouble(t, state)
	metricsHave(t, base, "gpu_busy_ratio{")
	state.HangFor = 45 * time.Second
	set(state)
	until(t, "not ready", func() (bool, string) {
		code, why := get(t, base+"/readyz")
		return code == http.StatusServiceUnavailable, why
	})
	began := time.Now()
	if code, body := get(t, base+"/metrics"); code != http.StatusOK || strings.Contains(body, "gpu_busy_ratio{") {
		t.Errorf("/metrics = %d while the host engine hangs:\n%s", code, body)
	}
	if took := time.Since(began); took > state.HangFor/4 {
		t.Errorf("a scrape took %s: it waits for the host engine", took)
	}
	if code, why := get(t, base+"/livez"); code != http.StatusOK {
		t.Errorf("/livez = %d %s: a restart mends no hanging driver", code, why)
	}
	state.HangFor = 0
	set(state)
	metricsHave(t, base, "gpu_busy_ratio{")
}

func TestLostCard(t *testing.T) {
	state := machine()
	base, set := startOnDouble(t, state)
	metricsHave(t, base, `reason="ok"} 1`)
	state.Cards[0].Lost = true
	state.Cards[0].XIDs = []fakedcgm.XID{{Code: 79, At: time.Now()}}
	set(state)
	metricsHave(t, base, `gpu_healthy{node="node-1",gpu="0",gpu_uuid="GPU-00000000-0000-0000-0000-000000000000",reason="xid_79"} 0`,
		`gpu_uuid="GPU-00000000-0000-0000-0000-000000000001",reason="ok"} 1`)
}
