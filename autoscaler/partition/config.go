package partition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// ConfigVersion is the only version of the file there is.
const ConfigVersion = "v1"

// maxConfigBytes bounds what is parsed; a ConfigMap cannot hold more.
const maxConfigBytes = 1 << 20

// Config is a mig-parted configuration file: named node layouts.
type Config struct {
	Version    string             `json:"version"`
	MIGConfigs map[string][]Entry `json:"mig-configs"`
}

// Entry is what some of a node's cards are to look like.
type Entry struct {
	// DeviceFilter restricts Devices to PCI ids ("0x233010DE"): a string or a
	// list in the file. We never write one, and keep what others wrote.
	DeviceFilter any     `json:"device-filter,omitempty"`
	Devices      Devices `json:"devices"`
	MIGEnabled   bool    `json:"mig-enabled"`
	// MIGDevices is the number of instances by the driver's profile name. It is
	// written even where there is none: mig-parted wants it for a card in MIG mode.
	MIGDevices map[string]int `json:"mig-devices"`
}

// Devices are the driver indices an Entry is about, or all of them.
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
		return errors.New(`devices: want "all" or a list of card indices`)
	}
	for _, i := range d.Indices {
		if i < 0 {
			return fmt.Errorf("devices: card index %d", i)
		}
	}
	return nil
}

// ParseConfig reads a mig-parted file. The empty text is the empty config.
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
		// Every value of a Config that ParseConfig or a NodeLayout made can be
		// written; a filter somebody built by hand might not.
		return ""
	}
	return string(b)
}

// Counts returns the number of instances by profile name that the named config
// gives card index, and whether it is in MIG mode. known is false when there is
// no such config or it says nothing certain about the card.
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
	if d.All {
		return true
	}
	for _, i := range d.Indices {
		if i == index {
			return true
		}
	}
	return false
}
