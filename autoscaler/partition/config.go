package partition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ConfigVersion is the only version of mig-parted's file.
const ConfigVersion = "v1"

// maxConfigBytes bounds the parsed text; a ConfigMap cannot have more.
const maxConfigBytes = 1 << 20

// Config is a mig-parted configuration file: named node layouts.
type Config struct {
	Version    string             `json:"version"`
	MIGConfigs map[string][]Entry `json:"mig-configs"`
}

// Entry is the layout of some of a node's GPUs.
type Entry struct {
	// DeviceFilter restricts Devices to PCI IDs ("0x233010DE"): a string or a list in the file.
	// Filters of foreign entries are kept; gpuscale writes none.
	DeviceFilter any     `json:"device-filter,omitempty"`
	Devices      Devices `json:"devices"`
	MIGEnabled   bool    `json:"mig-enabled"`
	// MIGDevices is the number of instances by the driver's profile name. It is written even if
	// empty: mig-parted requires it for a GPU in MIG mode.
	MIGDevices map[string]int `json:"mig-devices"`
}

// Devices are the driver indices of an Entry, or all.
type Devices struct {
	All     bool
	Indices []int
}

// MarshalJSON writes "all" or a list of indices.
func (d Devices) MarshalJSON() ([]byte, error) {
	if d.All {
		return []byte(`"all"`), nil
	}
	if d.Indices == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(d.Indices)
}

// UnmarshalJSON reads "all" or a list of indices.
func (d *Devices) UnmarshalJSON(b []byte) error {
	*d = Devices{}
	if bytes.Equal(b, []byte(`"all"`)) {
		d.All = true
		return nil
	}
	if err := json.Unmarshal(b, &d.Indices); err != nil {
		return errors.New(`devices: want "all" or a list of GPU indices`)
	}
	for _, i := range d.Indices {
		if i < 0 {
			return fmt.Errorf("devices: GPU index %d", i)
		}
	}
	return nil
}

// ParseConfig reads a mig-parted file. An empty text is an empty config.
func ParseConfig(text string) (Config, error) {
	c := Config{Version: ConfigVersion, MIGConfigs: map[string][]Entry{}}
	if len(text) > maxConfigBytes {
		return Config{}, fmt.Errorf("mig-parted config: %d bytes, at most %d are read", len(text), maxConfigBytes)
	}
	if strings.TrimSpace(text) == "" {
		return c, nil
	}
	if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
		return Config{}, fmt.Errorf("mig-parted config: %w", err)
	}
	if c.Version != ConfigVersion {
		return Config{}, fmt.Errorf("mig-parted config: version %q, want %q", c.Version, ConfigVersion)
	}
	if c.MIGConfigs == nil {
		c.MIGConfigs = map[string][]Entry{}
	}
	for name, entries := range c.MIGConfigs {
		for i, e := range entries {
			if e.MIGDevices == nil {
				entries[i].MIGDevices = map[string]int{}
			}
			for profile, n := range e.MIGDevices {
				if n < 0 {
					return Config{}, fmt.Errorf("mig-parted config: mig-configs.%s[%d].mig-devices.%s: %d instances", name, i, profile, n)
				}
			}
		}
	}
	return c, nil
}

// String renders the file; equal configs give equal bytes.
func (c Config) String() string {
	b, err := yaml.Marshal(c)
	if err != nil {
		// Unreachable for configs of ParseConfig or NodeLayout.
		return ""
	}
	return string(b)
}

// Counts returns the number of instances by profile name that the named config gives GPU index, and
// whether the GPU is in MIG mode. known is false if there is no such config or its entries do not
// define the GPU.
func (c Config) Counts(name string, index int) (counts map[string]int, mig, known bool) {
	for _, e := range c.MIGConfigs[name] {
		if e.DeviceFilter != nil {
			return nil, false, false
		}
		if e.Devices.covers(index) {
			return e.MIGDevices, e.MIGEnabled, true
		}
	}
	return nil, false, false
}

func (d Devices) covers(index int) bool {
	return d.All || slices.Contains(d.Indices, index)
}
