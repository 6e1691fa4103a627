package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	specv1 "github.com/NVIDIA/mig-parted/api/spec/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// wanted is the part of a named configuration for one GPU.
type wanted struct {
	names  map[string]int // as in the file
	counts []mig.Count    // empty if the driver does not know one of the names
	mig    bool
}

// parseConfig reads a named configuration of a mig-parted file with mig-parted's own types, for each GPU that
// it selects. mig-parted chooses the placements.
func parseConfig(file []byte, name string, gpus int, table *mig.Table) (map[int]wanted, error) {
	var s specv1.Spec
	if err := yaml.Unmarshal(file, &s); err != nil {
		return nil, fmt.Errorf("mig-parted config: %w", err)
	}
	entries, ok := s.MigConfigs[name]
	if !ok {
		return nil, fmt.Errorf("mig-parted config: no configuration %q", name)
	}
	out := map[int]wanted{}
	for _, e := range entries {
		if e.MigEnabled && table == nil {
			return nil, errors.New("mig-parted config: the GPU has no MIG")
		}
		w := wanted{mig: e.MigEnabled, names: e.MigDevices, counts: countsOf(e.MigDevices, table)}
		for i := range gpus {
			if e.MatchesDevices(i) {
				out[i] = w
			}
		}
	}
	return out, nil
}

func countsOf(names map[string]int, table *mig.Table) (out []mig.Count) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p, ok := table.Exact(name)
		if !ok || table.Name(p) != name {
			return nil
		}
		if n := names[name]; n > 0 {
			out = append(out, mig.Count{Profile: p, N: n})
		}
	}
	return out
}
