//go:build linux

package node_test

import (
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// variant is an installation that a user may choose, by Helm's flags over the chart's
// defaults. Each is an upgrade of the one before.
type variant struct {
	name  string
	flags []string
	pods  map[string]int // that run, by component
	apis  []string       // that are served; no other of ours is registered
}

const (
	customAPI   = "v1beta2.custom.metrics.k8s.io"
	externalAPI = "v1beta1.external.metrics.k8s.io"
)

// variants of TestChart. The agent's is TestRepartition's, on a node with a driver; what Helm refuses is
// TestRefused's of sandbox/chart.
var variants = []variant{
	{name: "the exporter alone, as by default", pods: map[string]int{"exporter": 1}},
	{name: "each quantity of DCGM once, scraped by annotations", flags: []string{"exporter.compat=once", "monitoring.scrape=annotations"}, pods: map[string]int{"exporter": 1}},
	{
		name:  "the adapter",
		flags: []string{"adapter.enabled=true"}, pods: map[string]int{"exporter": 1, "adapter": 2}, apis: []string{customAPI, externalAPI},
	},
	{
		name:  "custom metrics alone",
		flags: []string{"adapter.enabled=true", "adapter.apis.external=false"}, pods: map[string]int{"exporter": 1, "adapter": 2}, apis: []string{customAPI},
	},
	{
		name:  "external metrics alone, without an exporter",
		flags: []string{"adapter.enabled=true", "adapter.apis.custom=false", "exporter.enabled=false"}, pods: map[string]int{"adapter": 2}, apis: []string{externalAPI},
	},
	{
		name:  "the autoscaler's dry run",
		flags: []string{"autoscaler.enabled=true", "autoscaler.dryRun=true"}, pods: map[string]int{"exporter": 1, "autoscaler": 2},
	},
	{
		name:  "network policies, and a report each week",
		flags: []string{"adapter.enabled=true", "networkPolicy.enabled=true", "report.enabled=true"}, pods: map[string]int{"exporter": 1, "adapter": 2}, apis: []string{customAPI, externalAPI},
	},
	{
		name:  "all programs but the agent, one replica each",
		flags: []string{"adapter.enabled=true", "adapter.replicas=1", "autoscaler.enabled=true", "autoscaler.replicas=1", "report.enabled=true"},
		pods:  map[string]int{"exporter": 1, "adapter": 1, "autoscaler": 1}, apis: []string{customAPI, externalAPI},
	},
}

func (c *installation) variant(v variant) {
	c.values = ofTheNode
	var args []string
	for _, f := range v.flags {
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
		if !maps.Equal(have, v.pods) {
			return fmt.Errorf("%v, want %v", have, v.pods)
		}
		return nil
	})
	for _, p := range c.pods() {
		if p.Labels["batch.kubernetes.io/job-name"] == "" {
			c.podReady(p.Name)
		}
	}
	for _, name := range []string{customAPI, externalAPI} {
		if want := strings.Contains(strings.Join(v.apis, " "), name); want {
			c.await("APIService "+name, func() error { return c.available(name) })
		} else if err := c.available(name); !apierrors.IsNotFound(err) {
			c.Errorf("APIService %s is registered: %v", name, err)
		}
	}
}
