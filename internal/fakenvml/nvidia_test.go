package fakenvml_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

// nvidia is a machine on which NVIDIA's own programs run.
type nvidia struct {
	*testing.T
	dir, lib, programs string
	table              *mig.Table
	state              fakenvml.State
}

// newNVIDIA has H100s with layouts in words, "-" for no MIG.
func newNVIDIA(t *testing.T, layouts ...string) *nvidia {
	t.Helper()
	testall.Node(t)
	if os.Geteuid() != 0 {
		t.Skip("root only: the machine's files are mounted over those of this one")
	}
	lib, err := fakenvml.Build(t.Context(), "")
	if errors.Is(err, fakenvml.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	programs, err := build.NVIDIA(t.Context(), build.Options{Out: t.Output()})
	require.NoError(t, err)
	n := &nvidia{T: t, dir: t.TempDir(), lib: lib, programs: programs, state: fakenvml.State{Driver: "580.159.03"}}
	n.table, _ = mig.ForModel("H100-80GB")
	for i, layout := range layouts {
		c, err := fakenvml.Product(i, "H100-80GB", layout)
		require.NoError(t, err)
		c.Name, c.MemoryMiB, c.XIDs = "NVIDIA H100 80GB HBM3", 81559, fakenvml.XIDs()
		n.state.GPUs = append(n.state.GPUs, c)
	}
	n.write()
	return n
}

func (n *nvidia) layout(text string) mig.Layout {
	n.Helper()
	if text == "-" {
		return nil
	}
	l, err := mig.ParseLayout(n.table, text)
	require.NoError(n, err)
	return l
}

func (n *nvidia) write() {
	n.Helper()
	err := n.state.Write(filepath.Join(n.dir, "state"))
	if err == nil {
		err = n.state.WriteFiles(n.dir)
	}
	require.NoError(n, err)
}

func (n *nvidia) read() fakenvml.State {
	n.Helper()
	s, err := fakenvml.Read(filepath.Join(n.dir, "state"))
	require.NoError(n, err)
	return s
}

func (n *nvidia) run(program string, args ...string) (stdout string, err error) {
	n.Helper()
	args = append([]string{"--mount", "--propagation", "private", "sh", "-c", fakenvml.OnMachine, "sh", n.dir, filepath.Join(n.programs, program)}, args...)
	cmd := exec.CommandContext(n.Context(), "unshare", args...)
	cmd.Env = append(os.Environ(), fakenvml.EnvState+"="+filepath.Join(n.dir, "state"), "LD_LIBRARY_PATH="+n.lib)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return string(out), err
}

// configured writes mig-parted's file for a node of these layouts, as the autoscaler does.
func (n *nvidia) configured(layouts ...string) (file string, want partition.NodeLayout) {
	n.Helper()
	model, _ := gpu.ParseProduct("H100-80GB")
	var gpus []plan.GPU
	for i, text := range layouts {
		c := plan.GPU{Device: gpu.Device{Index: i, Model: model}, AllocationKnown: true, MIG: text != "-"}
		for _, p := range n.layout(text) {
			c.Instances = append(c.Instances, plan.Instance{Placement: p, Placed: true})
		}
		gpus = append(gpus, c)
	}
	want, err := partition.Names{}.LayoutOf(nil, gpus)
	require.NoError(n, err)
	config := partition.Config{Version: partition.ConfigVersion, MIGConfigs: map[string][]partition.Entry{want.Name(): want.Entries()}}
	file = filepath.Join(n.TempDir(), "config.yaml")
	require.NoError(n, os.WriteFile(file, []byte(config.String()), 0o600))
	return file, want
}

// TestMigParted: nvidia-mig-parted takes each configuration of the autoscaler, reports that it is not applied, applies
// it, reports that it is, and exports the same counts.
func TestMigParted(t *testing.T) {
	n := newNVIDIA(t, "-", "7g.80gb@0")
	for _, layouts := range [][]string{
		{"3g.40gb@0 3g.40gb@4", "-"},
		{"1g.10gb@0 1g.10gb+me@1 2g.20gb@2 3g.40gb@4", "3g.40gb@0 1g.20gb@4 1g.20gb@6"},
		{"-", "4g.40gb@0 2g.20gb@4 1g.10gb@6"},
		{"1g.10gb@0", "empty"},
	} {
		file, want := n.configured(layouts...)
		if out, err := n.run("nvidia-mig-parted", "assert", "-f", file, "-c", want.Name()); err == nil {
			t.Errorf("%v: applied before it is: %s", layouts, out)
		}
		for _, step := range []string{"apply", "assert"} {
			if out, err := n.run("nvidia-mig-parted", step, "-f", file, "-c", want.Name()); err != nil {
				t.Fatalf("%s %v: %v\n%s", step, layouts, err, out)
			}
		}
		out, err := n.run("nvidia-mig-parted", "export")
		require.NoError(t, err)
		exported, err := partition.ParseConfig(out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		have := exported.Layout("current", len(want))
		if !slices.EqualFunc(have, want, func(a, b partition.GPULayout) bool { return a.MIG == b.MIG && maps.Equal(a.Counts, b.Counts) }) {
			t.Errorf("%v: exported %v\n%s", layouts, have, out)
		}
	}
}

// TestMigPartedLeavesBusyInstance: a configuration that would destroy an instance in use fails.
func TestMigPartedLeavesBusyInstance(t *testing.T) {
	n := newNVIDIA(t, "3g.40gb@0 1g.10gb@4")
	n.state.GPUs[0].Instances[0].Values = fakenvml.Busy(42)
	n.write()
	file, want := n.configured("7g.80gb@0")
	if out, err := n.run("nvidia-mig-parted", "apply", "-f", file, "-c", want.Name()); err == nil {
		t.Errorf("applied: %s", out)
	}
	if c := n.read().GPUs[0]; len(c.Instances) == 0 || c.Instances[0].Values["compute"] == "" || len(c.Instances[0].Computes) != 1 {
		t.Errorf("the busy instance is gone: %+v", c.Instances)
	}
}

// TestGPUFeatureDiscovery: the labels of a node are those that the autoscaler reads.
func TestGPUFeatureDiscovery(t *testing.T) {
	n := newNVIDIA(t, "3g.40gb@0 1g.10gb@4 1g.10gb+me@5", "-")
	labels := func(strategy string) map[string]string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "labels")
		_, err := n.run("gpu-feature-discovery", "--oneshot", "--use-node-feature-api=false", "--mig-strategy="+strategy, "--output-file="+file)
		require.NoError(t, err)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		out := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			out[name] = value
		}
		return out
	}
	has := func(have map[string]string, want map[string]string) {
		t.Helper()
		for name, value := range want {
			if have[name] != value {
				t.Errorf("%s=%q, want %q", name, have[name], value)
			}
		}
	}
	mixed := labels("mixed")
	has(mixed, map[string]string{
		"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.count": "2",
		"nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.mode": "compute",
		"nvidia.com/cuda.driver-version.full": "580.159.03", "nvidia.com/mig-3g.40gb.slices.gi": "3",
	})
	for _, profile := range []string{"3g.40gb", "1g.10gb", "1g.10gb+me"} {
		has(mixed, map[string]string{mig.ResourceName(profile) + ".count": "1"})
	}
	if model, ok := gpu.ParseProduct(mixed["nvidia.com/gpu.product"]); !ok || model.Name != "H100-80GB" {
		t.Errorf("the product is read as %+v", model)
	}
	n = newNVIDIA(t, "1g.10gb@0 1g.10gb@1", "1g.10gb@6")
	has(labels("single"), map[string]string{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/gpu.count": "3"})
}
