package node

import (
	"fmt"
	"strings"

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
// in it, the instances; a nil list turns MIG off.
type wanted struct {
	counts []mig.Count
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
	w := wanted{mig: true}
	for _, name := range sortedKeys(e.MIGDevices) {
		p, ok := table.Exact(strings.TrimSpace(name))
		if !ok {
			return wanted{}, fmt.Errorf("%s has no profile %q", table.Model(), name)
		}
		if n := e.MIGDevices[name]; n > 0 {
			w.counts = append(w.counts, mig.Count{Profile: p, N: n})
		}
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
