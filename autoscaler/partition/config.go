package partition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	return json.Marshal(append([]int{}, d.Indices...))
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
			return fmt.Errorf("devices: GPU index %d is negative", i)
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
	b, _ := yaml.Marshal(c) // cannot fail for configs of ParseConfig or NodeLayout
	return string(b)
}

// Layout returns the layout of a node with so many GPUs under the named config. It is nil if there is no such config,
// or if its entries do not define all of the GPUs.
func (c Config) Layout(name string, gpus int) NodeLayout {
	var layout NodeLayout
	for index := range gpus {
		at := slices.IndexFunc(c.MIGConfigs[name], func(e Entry) bool {
			return e.DeviceFilter != nil || e.Devices.All || slices.Contains(e.Devices.Indices, index)
		})
		if at < 0 || c.MIGConfigs[name][at].DeviceFilter != nil {
			return nil
		}
		e := c.MIGConfigs[name][at]
		layout = append(layout, GPULayout{MIG: e.MIGEnabled, Counts: e.MIGDevices})
	}
	return layout
}

// ConfigKey is the ConfigMap's key of the mig-parted file.
const ConfigKey = "config.yaml"

// DefaultConfigMap is the one that mig-manager is configured to read.
var DefaultConfigMap = client.ObjectKey{Namespace: "gpu-operator", Name: "gpuscale-mig-config"}

// keepUnused is the number of unused configs that are kept: a config that is already mounted can be
// selected without waiting for the kubelet.
const keepUnused = 64

// Publish adds the configs of layouts that are missing. It returns when the last of the layouts' configs was added;
// zero if that is more than addedFor ago. Foreign entries are not changed.
func (m *Manager) Publish(ctx context.Context, now time.Time, layouts ...NodeLayout) (last time.Time, err error) {
	added, err := m.edit(ctx, now, func(c *Config) error {
		for _, l := range layouts {
			name := l.Name()
			if have, ok := c.MIGConfigs[name]; ok && !reflect.DeepEqual(have, l.Entries()) {
				return fmt.Errorf("config %s exists with other contents", name)
			}
			c.MIGConfigs[name] = l.Entries()
		}
		return nil
	})
	for _, l := range layouts {
		if at := added[l.Name()]; at.After(last) {
			last = at
		}
	}
	return last, err
}

// addedAnnotation of the ConfigMap has, as JSON and by name, the times at which configs were added, for addedFor: the
// kubelet updates the ConfigMap in mig-manager's pod with a delay.
const (
	addedAnnotation = "gpuscale.io/configs-added"
	addedFor        = time.Hour
)

// addedTo returns when configs were added to a ConfigMap. If the times cannot be read, all were added long ago.
func addedTo(cm *corev1.ConfigMap) (added map[string]time.Time) {
	if json.Unmarshal([]byte(cm.Annotations[addedAnnotation]), &added) != nil || added == nil {
		return map[string]time.Time{}
	}
	return added
}

// Gives reports whether a config of that name can be selected and gives all GPUs of a node exactly
// this layout, with the same spelling.
func (m *Manager) Gives(ctx context.Context, name string, layout NodeLayout) (bool, error) {
	_, _, c, err := m.read(ctx)
	if err != nil {
		return false, fmt.Errorf("ConfigMap %s: %w", m.configMap, err)
	}
	have := c.Layout(name, len(layout))
	return have != nil && have.canonical() == layout.canonical(), nil
}

// Collect removes gpuscale's configs that are not in used, except the first keepUnused. A config
// whose other name (otherName) is in used is in use too: its node may go back to it.
func (m *Manager) Collect(ctx context.Context, now time.Time, used map[string]bool) error {
	_, err := m.edit(ctx, now, func(c *Config) error {
		var unused []string
		for name := range c.MIGConfigs {
			if strings.HasPrefix(name, namePrefix) && !used[name] && !used[otherName(name)] {
				unused = append(unused, name)
			}
		}
		slices.Sort(unused)
		for _, name := range unused[min(keepUnused, len(unused)):] {
			delete(c.MIGConfigs, name)
		}
		return nil
	})
	return err
}

// read gets the live ConfigMap and its configs. There are none if it is missing.
func (m *Manager) read(ctx context.Context) (cm corev1.ConfigMap, missing bool, c Config, err error) {
	err = m.live.Get(ctx, m.configMap, &cm)
	if missing = apierrors.IsNotFound(err); err == nil || missing {
		c, err = ParseConfig(cm.Data[ConfigKey])
	}
	return cm, missing, c, err
}

// edit applies change to the live ConfigMap and creates it if missing. It returns when configs were added.
func (m *Manager) edit(ctx context.Context, now time.Time, change func(*Config) error) (added map[string]time.Time, err error) {
	retriable := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err = retry.OnError(retry.DefaultBackoff, retriable, func() error {
		cm, missing, c, err := m.read(ctx)
		if err != nil {
			return err
		}
		added = addedTo(&cm)
		before := maps.Clone(c.MIGConfigs)
		if err := change(&c); err != nil {
			return err
		}
		if reflect.DeepEqual(before, c.MIGConfigs) {
			return nil // an empty one is not created
		}
		if missing {
			cm.ObjectMeta = metav1.ObjectMeta{Namespace: m.configMap.Namespace, Name: m.configMap.Name}
		}
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		maps.DeleteFunc(added, func(_ string, at time.Time) bool { return now.Sub(at) > addedFor })
		for name := range c.MIGConfigs {
			if _, had := before[name]; !had {
				added[name] = now
			}
		}
		text, err := json.Marshal(added)
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&cm.ObjectMeta, addedAnnotation, string(text))
		cm.Data[ConfigKey] = c.String()
		if missing {
			return m.client.Create(ctx, &cm)
		}
		return m.client.Update(ctx, &cm)
	})
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %w", m.configMap, err)
	}
	return added, nil
}
