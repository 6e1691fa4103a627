package hardware

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestReal reads the GPUs of this machine, if a driver is installed, and changes nothing. The driver reports the
// profiles of a GPU without MIG mode too, and they must be those of our table.
func TestReal(t *testing.T) {
	const itself = "GPUSCALE_REAL_DRIVER"
	if os.Getenv(itself) == "" { // a process in which the fake was loaded finds that under the driver's name
		cmd := exec.Command(os.Args[0], "-test.run=^TestReal$", "-test.v")
		cmd.Env = append(os.Environ(), itself+"=1")
		out, err := cmd.CombinedOutput()
		if bytes.Contains(out, []byte("--- SKIP")) {
			t.Skipf("%s", out)
		}
		t.Logf("%s", out)
		require.NoError(t, err)
		return
	}
	n := New("", time.Minute)
	m, err := n.Read(t.Context())
	if errors.Is(err, ErrNoLibrary) {
		t.Skip("the driver's library is not on this machine")
	}
	require.NoError(t, err)
	if len(m.GPUs) == 0 {
		t.Skip("the driver is here and GPUs are not")
	}
	for i, c := range m.GPUs {
		require.NoError(t, c.Err)
		t.Logf("%d: %s, driver %s, %d MiB, MIG possible %v, on %v, %d instances, processes %v",
			c.Index, c.Product, m.Driver, c.MemoryMiB, c.CanMIG, c.MIG, len(c.Instances), c.PIDs)
		if !c.CanMIG {
			continue
		}
		table, known := mig.ForModel(c.Product)
		if !known {
			t.Errorf("%s can be partitioned and our tables lack it", c.Product)
			continue
		}
		var seen []mig.Seen
		require.NoError(t, n.with(t.Context(), func(lib nvml.Interface) error {
			d, ret := lib.DeviceGetHandleByIndex(i)
			if err := failure(ret); err != nil {
				return err
			}
			profiles, err := profilesOf(d)
			for _, p := range profiles {
				seen = append(seen, p.seen)
			}
			return err
		}))
		driver, err := mig.SpecFromNVML(c.Product, c.MemoryMiB, seen)
		require.NoError(t, err)
		if got, want := profileLines(table.Spec()), profileLines(driver); !slices.Equal(got, want) {
			t.Errorf("%s\nour table:  %q\nthe driver: %q", c.Product, got, want)
		}
	}
}

// profileLines are the names of a product's profiles, where they may start and how many there may be.
func profileLines(s mig.Spec) []string {
	out := []string{fmt.Sprint(s.Model, s.ComputeSlices, s.MemorySlices, s.MemoryMiB)}
	for _, p := range s.Profiles {
		out = append(out, fmt.Sprintf("%s %v x%d", p.Name, p.Starts, p.Max))
	}
	slices.Sort(out)
	return out
}
