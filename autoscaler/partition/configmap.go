package partition

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfigKey is the ConfigMap's key that holds the mig-parted file.
const ConfigKey = "config.yaml"

// DefaultConfigMap is where mig-manager is told to look.
var DefaultConfigMap = client.ObjectKey{Namespace: "gpu-operator", Name: "gpuscale-mig-config"}

// keepUnused is how many configs nobody uses are kept for the next time: one
// that is already mounted can be selected without waiting for kubelet.
const keepUnused = 64

// Publish writes the configs of layouts that are not there yet and returns
// whether any was missing. Others' entries stay as they are.
func (m *Manager) Publish(ctx context.Context, layouts ...NodeLayout) (added bool, err error) {
	err = m.edit(ctx, func(c *Config) error {
		added = false
		for _, l := range layouts {
			name := l.Name()
			have, ok := c.MIGConfigs[name]
			if ok && !reflect.DeepEqual(have, l.Entries()) {
				return fmt.Errorf("config %s is there with other contents", name)
			}
			if !ok {
				c.MIGConfigs[name] = l.Entries()
				added = true
			}
		}
		return nil
	})
	return added, err
}

// Gives reports whether a config of that name can be selected and gives all cards of
// a node exactly this layout, spelled in the same way.
func (m *Manager) Gives(ctx context.Context, name string, layout NodeLayout) (bool, error) {
	var cm corev1.ConfigMap
	if err := m.live.Get(ctx, m.configMap, &cm); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("ConfigMap %s: %w", m.configMap, err)
	}
	c, err := ParseConfig(cm.Data[ConfigKey])
	if err != nil {
		return false, fmt.Errorf("ConfigMap %s: %w", m.configMap, err)
	}
	for i, want := range layout {
		counts, isMIG, known := c.Counts(name, i)
		have := maps.Clone(counts)
		maps.DeleteFunc(have, func(_ string, n int) bool { return n == 0 })
		if !known || isMIG != want.MIG || len(have) != len(want.Counts) || len(have) > 0 && !maps.Equal(have, want.Counts) {
			return false, nil
		}
	}
	return len(layout) > 0, nil
}

// Collect removes our configs that are not in used, but for the first
// keepUnused of them. One whose other name is in used is used as well: it may be
// what its node goes back to.
func (m *Manager) Collect(ctx context.Context, used map[string]bool) error {
	return m.edit(ctx, func(c *Config) error {
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
}

// edit applies change to the live ConfigMap, making it where it is missing.
func (m *Manager) edit(ctx context.Context, change func(*Config) error) error {
	err := retry.OnError(retry.DefaultBackoff, retriable, func() error {
		var cm corev1.ConfigMap
		err := m.live.Get(ctx, m.configMap, &cm)
		missing := apierrors.IsNotFound(err)
		if err != nil && !missing {
			return err
		}
		c, err := ParseConfig(cm.Data[ConfigKey])
		if err != nil {
			return err
		}
		before := maps.Clone(c.MIGConfigs)
		if err := change(&c); err != nil {
			return err
		}
		if reflect.DeepEqual(before, c.MIGConfigs) {
			return nil // nor is an empty one made
		}
		if missing {
			cm.ObjectMeta = metav1.ObjectMeta{Namespace: m.configMap.Namespace, Name: m.configMap.Name}
		}
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		cm.Data[ConfigKey] = c.String()
		if missing {
			return m.client.Create(ctx, &cm)
		}
		return m.client.Update(ctx, &cm)
	})
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", m.configMap, err)
	}
	return nil
}

func retriable(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
