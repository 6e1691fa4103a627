//go:build linux

package node_test

import (
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"
)

// variant is a set of chart values in testdata/variants.yaml.
type variant struct {
	Name        string
	Flags, APIs []string
	Pods        map[string]int
}

// variants returns the variants for TestChart.
func (c *installation) variants() (all []variant) {
	c.Helper()
	c.must(yaml.UnmarshalStrict([]byte(c.text("variants.yaml")), &all))
	return all
}

func (c *installation) variant(v variant) {
	c.values = ofTheNode
	var args []string
	for _, f := range v.Flags {
		args = append(args, "--set", f)
	}
	if err := c.tryInstall(args...); err != nil {
		c.Fatalf("%v\n%s", err, c.describe())
	}
	c.await("its pods", func() error {
		have := map[string]int{}
		for _, p := range c.pods() {
			if p.Labels["batch.kubernetes.io/job-name"] == "" {
				have[p.Labels["app.kubernetes.io/component"]]++
			}
		}
		if !maps.Equal(have, v.Pods) {
			return fmt.Errorf("%v, want %v", have, v.Pods)
		}
		return nil
	})
	for _, p := range c.pods() {
		if p.Labels["batch.kubernetes.io/job-name"] == "" {
			c.podReady(p.Name)
		}
	}
	for _, name := range []string{"v1beta2.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"} {
		if slices.Contains(v.APIs, name) {
			c.await("APIService "+name, func() error { return c.available(name) })
		} else if err := c.available(name); !apierrors.IsNotFound(err) {
			c.Errorf("APIService %s is registered: %v", name, err)
		}
	}
}
