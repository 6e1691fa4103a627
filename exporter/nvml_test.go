package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/nvml/fakenvml"
)

// driverOnly is a machine with the driver's library and without DCGM's: a cut
// card and a whole one, which mixedPods hold.
func driverOnly() fakenvml.State {
	values := func(more map[string]string) map[string]string {
		all := map[string]string{"memory": "85520809984 4294967296 536870912", "power": "321500", "energy": "2000000", "gpm.1": "75"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	cut := fakenvml.Card{
		UUID: "GPU-aaaaaaaa-0000-0000-0000-000000000000", Name: "NVIDIA H100 80GB HBM3", PCIBusID: "00000000:01:00.0",
		MIG: true, MostInstances: 7, GPM: true, XIDs: []int{}, Values: values(nil),
		Instances: []fakenvml.Instance{{
			UUID: "MIG-11111111-0000-0000-0000-000000000000", Name: "NVIDIA H100 80GB HBM3 MIG 3g.40gb", ID: 1, Slices: 3, Size: 4,
			Values: map[string]string{"memory": "41943040 2097152 0", "gpm.1": "70"},
		}},
	}
	whole := fakenvml.Card{
		UUID: "GPU-bbbbbbbb-0000-0000-0000-000000000000", Name: "NVIDIA L40S", PCIBusID: "00000000:02:00.0", Minor: 1, XIDs: []int{},
		Values: values(map[string]string{"util": "37 12"}),
	}
	return fakenvml.State{Driver: "580.65.06", Cards: []fakenvml.Card{cut, whole}}
}

// startOnDriver runs the exporter with the library's double; logs gives what it
// has logged so far.
func startOnDriver(t *testing.T, state fakenvml.State, args ...string) (base string, set func(fakenvml.State), logs func() string) {
	t.Helper()
	dir := t.TempDir()
	if _, err := fakenvml.Build(t.Context(), dir); errors.Is(err, fakenvml.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "state")
	set = func(s fakenvml.State) {
		if err := s.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	set(state)
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("gpuscale-exporter", append(args, "-c", "100", "-a", "127.0.0.1:0")...)
	cmd.Env = append(os.Environ(), "NODE_NAME=node-1", "LD_LIBRARY_PATH="+dir, fakenvml.EnvState+"="+path)
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); stderr.Close() })
	logs = func() string { b, _ := os.ReadFile(stderr.Name()); return string(b) }
	serving := regexp.MustCompile(`msg=serving address=(\S+)`)
	until(t, "serving", func() (bool, string) {
		if m := serving.FindStringSubmatch(logs()); m != nil {
			base = "http://" + m[1]
		}
		return base != "", logs()
	})
	return base, set, logs
}

func TestWithoutDCGM(t *testing.T) {
	state := driverOnly()
	base, set, logs := startOnDriver(t, state, "-k", "--pod-resources-kubelet-socket", serveKubelet(t))
	if !strings.Contains(logs(), "no libdcgm.so.4 here: reading the driver's NVML") {
		if strings.Contains(logs(), "DCGM") {
			t.Skip("this machine has a libdcgm.so.4 of its own")
		}
		t.Errorf("nothing says what is read:\n%s", logs())
	}
	metricsHave(t, base,
		`gpu_busy_ratio{node="node-1",gpu="1",gpu_uuid="GPU-bbbbbbbb-0000-0000-0000-000000000000",model="NVIDIA L40S",namespace="batch",pod="train-0",container="main"} 0.37`,
		`gpu_instance_busy_ratio{node="node-1",gpu="0",gpu_uuid="GPU-aaaaaaaa-0000-0000-0000-000000000000",gpu_instance_id="1",profile="3g.40gb",namespace="chat",pod="vllm-0",container="main"} 0.7`,
		`gpu_instance_info{node="node-1",gpu="0",gpu_uuid="GPU-aaaaaaaa-0000-0000-0000-000000000000",gpu_instance_id="1",profile="3g.40gb",start="0",size="4",instance_uuid="MIG-11111111-0000-0000-0000-000000000000"} 1`,
		`gpu_energy_joules_total{node="node-1",gpu="1",gpu_uuid="GPU-bbbbbbbb-0000-0000-0000-000000000000",model="NVIDIA L40S"} 2000`,
		`hostname="node-1",DCGM_FI_DRIVER_VERSION="580.65.06",container="main",namespace="batch",pod="train-0"} 37`,
		`reason="ok"} 1`,
	)
	onceACard(t, base, "gpu_power_watts{")

	state.Cards[1].Lost, state.Cards[1].XIDs = true, []int{79}
	set(state)
	metricsHave(t, base, `gpu_healthy{node="node-1",gpu="1",gpu_uuid="GPU-bbbbbbbb-0000-0000-0000-000000000000",reason="xid_79"} 0`,
		`gpu_uuid="GPU-aaaaaaaa-0000-0000-0000-000000000000",reason="ok"} 1`)
}

func TestDriverHangs(t *testing.T) {
	state := driverOnly()
	base, set, _ := startOnDriver(t, state, "--source", "nvml")
	metricsHave(t, base, "gpu_busy_ratio{")
	state.Hang = true
	set(state)
	until(t, "not ready", func() (bool, string) {
		code, why := get(t, base+"/readyz")
		return code == http.StatusServiceUnavailable, why
	})
	if code, body := get(t, base+"/metrics"); code != http.StatusOK || strings.Contains(body, "gpu_busy_ratio{") {
		t.Errorf("/metrics = %d while the driver hangs:\n%s", code, body)
	}
	state.Hang = false
	set(state)
	metricsHave(t, base, "gpu_busy_ratio{")
}
