package node

import (
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// partedConfig is mig-parted's file, version v1. Counts only: placements are
// mig-parted's own choice.
type partedConfig struct {
	Version string                   `json:"version"`
	Configs map[string][]partedEntry `json:"mig-configs"`
}

type partedEntry struct {
	DeviceFilter any            `json:"device-filter,omitempty"`
	Devices      any            `json:"devices"` // "all" or a list of indices
	MIGEnabled   bool           `json:"mig-enabled"`
	MIGDevices   map[string]int `json:"mig-devices"`
}

// wanted is one named configuration, resolved for a node: for each GPU
// in it, the instances.
type wanted struct {
	names  map[string]int // as in the file
	counts []mig.Count    // none if the driver lacks one of the names
	mig    bool
}

// parseConfig returns the named configuration of a mig-parted file for each of the
// GPUs in it.
func parseConfig(file []byte, name string, gpus int, table *mig.Table) (map[int]wanted, error) {
	var c partedConfig
	if err := yaml.UnmarshalStrict(file, &c); err != nil {
		return nil, fmt.Errorf("mig-parted config: %w", err)
	}
	if c.Version != "v1" {
		return nil, fmt.Errorf("mig-parted config: version %q, want v1", c.Version)
	}
	entries, ok := c.Configs[name]
	if !ok {
		return nil, fmt.Errorf("mig-parted config: no configuration %q", name)
	}
	out := map[int]wanted{}
	for i, e := range entries {
		w, err := e.resolve(table)
		if err != nil {
			return nil, fmt.Errorf("mig-parted config %s[%d]: %w", name, i, err)
		}
		devices, err := e.devices(gpus)
		if err != nil {
			return nil, fmt.Errorf("mig-parted config %s[%d]: %w", name, i, err)
		}
		for _, d := range devices {
			out[d] = w
		}
	}
	return out, nil
}

func (e partedEntry) resolve(table *mig.Table) (wanted, error) {
	if !e.MIGEnabled {
		if len(e.MIGDevices) > 0 {
			return wanted{}, fmt.Errorf("mig-devices without mig-enabled")
		}
		return wanted{}, nil
	}
	if table == nil {
		return wanted{}, fmt.Errorf("the GPU has no MIG")
	}
	w := wanted{mig: true, names: e.MIGDevices}
	known, total := true, 0
	for _, name := range slices.Sorted(maps.Keys(e.MIGDevices)) {
		n := e.MIGDevices[name]
		if parsed, err := mig.ParseName(name); err != nil || parsed.GB == 0 || parsed.String() != name || n < 0 {
			return wanted{}, fmt.Errorf("mig-devices %q: %d: not a profile or not an amount", name, n)
		}
		total += n
		p, ok := table.Exact(name)
		known = known && ok && table.Name(p) == name
		if n > 0 {
			w.counts = append(w.counts, mig.Count{Profile: p, N: n})
		}
	}
	if total == 0 && len(e.MIGDevices) > 0 {
		return wanted{}, fmt.Errorf("all mig-devices are 0")
	}
	if !known {
		w.counts = nil
	}
	return w, nil
}

func (e partedEntry) devices(gpus int) ([]int, error) {
	switch v := e.Devices.(type) {
	case string:
		if v != "all" {
			return nil, fmt.Errorf("devices %q, want all or a list of indices", v)
		}
		all := make([]int, gpus)
		for i := range all {
			all[i] = i
		}
		return all, nil
	case []any:
		var out []int
		for _, one := range v {
			n, ok := one.(float64) // YAML comes through JSON
			if !ok || n != float64(int(n)) || n < 0 || int(n) >= gpus {
				return nil, fmt.Errorf("device %v: the node has GPUs 0 to %d", one, gpus-1)
			}
			out = append(out, int(n))
		}
		return out, nil
	}
	return nil, fmt.Errorf("devices is neither all nor a list of indices")
}
