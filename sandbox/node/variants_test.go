//go:build linux

package node_test

import (
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// variant is an installation that a user may choose, by Helm's flags over the chart's
// defaults. Each is an upgrade of the one before.
type variant struct {
	name  string
	flags []string
	pods  map[string]int // that run, by component
	apis  []string       // that are served; no other of ours is registered
	// refused is in Helm's error; then nothing has changed.
	refused string
	// label of the namespace while it is tried.
	label string
}

const (
	customAPI   = "v1beta2.custom.metrics.k8s.io"
	externalAPI = "v1beta1.external.metrics.k8s.io"
)

// variants of TestChart. The agent's is TestRepartition's, on a node with a driver.
var variants = []variant{
	{name: "the exporter alone, as by default", pods: map[string]int{"exporter": 1}},
	{name: "a namespace that refuses it", label: "baseline", refused: "pod-security.kubernetes.io/enforce=privileged"},
	{name: "a RuntimeClass that there is not", flags: []string{"exporter.runtimeClassName=kata"}, refused: `there is no RuntimeClass "kata"`},
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
	if v.label != "" {
		c.enforce(fmt.Sprintf("%q", v.label))
		defer c.enforce("null")
	}
	var args []string
	for _, f := range v.flags {
		args = append(args, "--set", f)
	}
	err := c.tryInstall(args...)
	switch {
	case v.refused != "" && (err == nil || !strings.Contains(err.Error(), v.refused)):
		c.Fatalf("want an error with %q, got %v", v.refused, err)
	case v.refused != "":
		return
	case err != nil:
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

// enforce sets the Pod Security level of the release's namespace.
func (c *installation) enforce(level string) {
	c.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%s}}}`, level)
	c.must(c.env.Admin.Patch(c.Context(), testenv.Object("v1/Namespace", "", installed), client.RawPatch(types.MergePatchType, []byte(patch))))
}
