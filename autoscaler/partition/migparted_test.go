//go:build cgo

package partition

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	specv1 "github.com/NVIDIA/mig-parted/api/spec/v1"
	"github.com/NVIDIA/mig-parted/pkg/mig/config"
	"github.com/NVIDIA/mig-parted/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
)

// envModel names the product of the test binary's process: mig-parted keeps the
// profiles of the first machine that it sees.
const envModel = "GPUSCALE_TEST_MODEL"

// onFakeDriver runs a test of mig-parted's own code on a product in a process of its own.
func onFakeDriver(t *testing.T, model string, do func(t *testing.T, library, model string)) {
	t.Helper()
	lib, err := fakenvml.Build(t.Context(), "")
	if errors.Is(err, fakenvml.ErrNoCompiler) {
		t.Skip(err)
	}
	require.NoError(t, err)
	if own := os.Getenv(envModel); own != "" {
		if own == model {
			do(t, filepath.Join(lib, fakenvml.Library), model)
			fmt.Println("did " + model)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), envModel+"="+model)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("did "+model)) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestMigPartedAppliesOurConfigs: mig-parted's own code reads the configurations
// that are written for nodes of each product, creates their instances on the fake
// driver, and then finds them applied, whatever was on the GPU before.
func TestMigPartedAppliesOurConfigs(t *testing.T) {
	for _, model := range mig.Models() {
		t.Run(model, func(t *testing.T) {
			if os.Getenv(envModel) == "" {
				t.Parallel()
			}
			onFakeDriver(t, model, applyOurConfigs)
		})
	}
}

// twoGPUs is mig-parted over a fake machine with two GPUs in MIG mode, whose state is in path.
func twoGPUs(t *testing.T, library, model string, memoryMiB int, spec mig.Spec) (manager config.Manager, path string) {
	t.Helper()
	state := fakenvml.State{Driver: "580.159.03"}
	for i := range 2 {
		state.GPUs = append(state.GPUs, fakenvml.GPU{UUID: fakenvml.GPUUUID(i), Name: "NVIDIA " + model, MemoryMiB: memoryMiB, MIG: true, Spec: spec})
	}
	path = filepath.Join(t.TempDir(), "state")
	require.NoError(t, state.Write(path))
	t.Setenv(fakenvml.EnvState, path)
	driver := nvml.New(nvml.WithLibraryPath(library))
	if ret := driver.Init(); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	return config.NewMockNvmlMigConfigManager(driver), path
}

func applyOurConfigs(t *testing.T, library, model string) {
	table, _ := mig.ForModel(model)
	spec := table.Spec()
	manager, path := twoGPUs(t, library, model, spec.MemoryMiB, spec)
	product, _ := gpu.ParseProduct(model)
	random := rand.New(rand.NewPCG(uint64(testall.Seed(t, 1)), 1))
	maximal := table.Maximal()
	for range 10 {
		gpus := []plan.GPU{
			ofLayout(0, product, maximal[random.IntN(len(maximal))]),
			ofLayout(1, product, maximal[random.IntN(len(maximal))]),
		}
		gpus[1].Instances = gpus[1].Instances[:random.IntN(1+len(gpus[1].Instances))]
		layout, err := Names{}.LayoutOf(nil, gpus)
		require.NoError(t, err)
		ours := Config{Version: ConfigVersion, MIGConfigs: map[string][]Entry{layout.Name(): layout.Entries()}}
		var theirs specv1.Spec
		if err := yaml.Unmarshal([]byte(ours.String()), &theirs); err != nil {
			t.Fatalf("mig-parted refuses it: %v\n%s", err, ours)
		}
		for i := range gpus {
			for _, entry := range theirs.MigConfigs[layout.Name()] {
				if entry.MatchesDevices(i) {
					apply(t, manager, i, entry.MigDevices, layout[i].Counts)
				}
			}
		}
		now, err := fakenvml.Read(path)
		require.NoError(t, err)
		for i := range gpus {
			was, whole := now.GPUs[i].Layout()
			if err := table.Legal(was); err != nil || !whole {
				t.Fatalf("GPU %d is %s, whole %v: %v", i, was, whole, err)
			}
		}
	}
	unknownName(t, manager, path)
}

// unknownName shows why a configuration has the driver's own names and no other spelling:
// mig-parted v0.13.1 clears a GPU for a name that its driver does not have, creates nothing, and
// reports success.
func unknownName(t *testing.T, manager config.Manager, path string) {
	t.Helper()
	if err := manager.SetMigConfig(0, types.MigConfig{"3g.41gb": 1}); err != nil {
		t.Errorf("mig-parted refuses an unknown name now: %v", err)
	}
	if now, err := fakenvml.Read(path); err != nil || len(now.GPUs[0].Instances) != 0 {
		t.Errorf("mig-parted keeps what an unknown name does not replace now: %+v, %v", now.GPUs[0].Instances, err)
	}
}

func apply(t *testing.T, manager config.Manager, index int, want types.MigConfig, counts map[string]int) {
	t.Helper()
	if !maps.Equal(map[string]int(want), counts) {
		t.Fatalf("GPU %d: mig-parted reads %v, the layout is %v", index, want, counts)
	}
	if err := manager.SetMigConfig(index, want); err != nil {
		t.Fatalf("GPU %d: applying %v: %v", index, want, err)
	}
	have, err := manager.GetMigConfig(index)
	if err != nil || !have.Equals(want) {
		t.Fatalf("GPU %d: applied %v, and it has %v: %v", index, want, have, err)
	}
}

// TestMigPartedLeavesTheOtherGPUs: the driver may give a profile another name than the product's table. mig-parted then
// finds our configuration applied on the GPUs that are not repartitioned, and does not touch their instances. With the
// table's names it would replace them.
func TestMigPartedLeavesTheOtherGPUs(t *testing.T) { onFakeDriver(t, aliased, leavesOthers) }

// aliased is a product that drivers report with either of two amounts of memory. aliasedMiB is the amount whose profile
// names are not the table's.
const (
	aliased    = "GB200-186GB"
	aliasedMiB = 193536
)

func leavesOthers(t *testing.T, library, _ string) {
	table, _ := mig.ForModel(aliased)
	product, _ := gpu.ParseProduct(aliased)
	busy, err := mig.ParseLayout(table, "3g.93gb@0 3g.93gb@4")
	require.NoError(t, err)
	manager, path := twoGPUs(t, library, aliased, aliasedMiB, table.Spec())
	require.NoError(t, manager.SetMigConfig(0, types.MigConfig{"3g.95gb": 2}))
	was, err := fakenvml.Read(path)
	if err != nil || len(was.GPUs[0].Instances) != 2 {
		t.Fatalf("%+v, %v", was, err)
	}
	names := NamesOn(offering(strconv.Itoa(aliasedMiB), map[string]string{"3g.95gb": "2"}))
	before, err := names.LayoutOf(nil, []plan.GPU{ofLayout(0, product, busy), ofLayout(1, product, nil)})
	require.NoError(t, err)
	sevenths, _ := mig.ParseLayout(table, "1g.23gb@0 1g.23gb@1 2g.47gb@2")
	after, err := before.With(nil, names, 1, aliased, sevenths)
	require.NoError(t, err)
	for i := range after {
		// As mig-parted's apply does it: a GPU whose names are equal is skipped.
		if have, err := manager.GetMigConfig(i); err != nil {
			t.Fatal(err)
		} else if have.Equals(after[i].Counts) {
			continue
		}
		apply(t, manager, i, after[i].Counts, after[i].Counts)
	}
	now, err := fakenvml.Read(path)
	if err != nil || !reflect.DeepEqual(now.GPUs[0], was.GPUs[0]) {
		t.Errorf("GPU 0 was changed: %+v, was %+v, %v", now.GPUs[0], was.GPUs[0], err)
	}
	if l, whole := now.GPUs[1].Layout(); !whole || len(l) != len(sevenths) {
		t.Errorf("GPU 1 is %s", l)
	}
}
