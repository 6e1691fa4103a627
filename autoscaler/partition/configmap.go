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

// ConfigKey is the ConfigMap's key of the mig-parted file.
const ConfigKey = "config.yaml"

// DefaultConfigMap is the one that mig-manager is configured to read.
var DefaultConfigMap = client.ObjectKey{Namespace: "gpu-operator", Name: "gpuscale-mig-config"}

// keepUnused is the number of unused configs that are kept: a config that is already mounted can be
// selected without waiting for the kubelet.
const keepUnused = 64

// Publish adds the configs of layouts that are missing and returns whether any was. Foreign entries
// are not changed.
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

// Gives reports whether a config of that name can be selected and gives all GPUs of a node exactly
// this layout, with the same spelling.
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

// Collect removes gpuscale's configs that are not in used, except the first keepUnused. A config
// whose other name is in used is in use too: its node may go back to it.
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

// edit applies change to the live ConfigMap and creates it if missing.
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
			return nil // an empty one is not created
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
