package chart

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestNeighbourPrometheusOperator: if the chart's monitors and rules have the labels that a Prometheus
// selects, the Prometheus Operator takes all of them into that Prometheus' configuration. It does so even if
// monitors may not read files.
func TestNeighbourPrometheusOperator(t *testing.T) {
	x, b := begin(t)
	x.crds(build.PrometheusOperator, "example/prometheus-operator-crd/*.yaml")
	b.program(t, build.PrometheusOperator, "operator", proc.Spec{Args: []string{"--web.listen-address=" + testenv.FreeAddress(t), "--kubelet-endpoints=false"}})
	t.Cleanup(func() {
		if err := b.upgrade(context.Background()); err != nil {
			t.Error(err)
		}
	})
	x.must(b.upgrade(t.Context(), "--set", "monitoring.scrape=ServiceMonitor", "--set", "monitoring.labels.release=stack",
		"--set", "monitoring.endpoints.adapter.authorization.credentials.name=scraper", "--set", "monitoring.endpoints.adapter.authorization.credentials.key=token",
		"--set", "monitoring.rules.recording=true", "--set", "monitoring.rules.alerts=true"))
	x.add(x.text("prometheus.yaml"))

	monitors := metav1.PartialObjectMetadataList{}
	monitors.SetGroupVersionKind(schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitorList"})
	x.must(b.Admin.List(t.Context(), &monitors, client.InNamespace(installed)))
	var jobs []string
	for _, m := range monitors.Items {
		jobs = append(jobs, "serviceMonitor/"+m.Namespace+"/"+m.Name+"/0")
	}
	slices.Sort(jobs)
	if len(jobs) < 3 {
		t.Fatalf("the chart has the monitors %q", jobs)
	}
	x.wait("a scrape job for each monitor", func() error {
		got, err := b.jobs(t.Context(), guests, "prometheus-stack")
		if err == nil && !slices.Equal(got, jobs) {
			err = fmt.Errorf("%q, want %q", got, jobs)
		}
		return err
	})

	var names []string
	for _, a := range alerts.All() {
		names = append(names, a.Name)
	}
	for _, r := range rules.All() {
		names = append(names, r.Record)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	x.wait("every rule", func() error {
		got, err := b.ruleNames(t.Context(), guests)
		if err == nil && !slices.Equal(got, names) {
			err = fmt.Errorf("%q, want %q", got, names)
		}
		return err
	})
}

// jobs returns the names of the scrape jobs in a configuration that the operator has written.
func (b *env) jobs(ctx context.Context, namespace, secret string) ([]string, error) {
	var s corev1.Secret
	if err := b.Admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secret}, &s); err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(s.Data["prometheus.yaml.gz"]))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var config struct {
		Scrapes []struct {
			Job string `json:"job_name"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	var out []string
	for _, s := range config.Scrapes {
		out = append(out, s.Job)
	}
	slices.Sort(out)
	return out, nil
}

// ruleNames returns the alerts and records in the rule files that the operator has written.
func (b *env) ruleNames(ctx context.Context, namespace string) ([]string, error) {
	var list corev1.ConfigMapList
	if err := b.Admin.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var out []string
	for _, m := range list.Items {
		if !strings.Contains(m.Name, "-rulefiles-") {
			continue
		}
		for name, text := range m.Data {
			var file struct {
				Groups []struct {
					Rules []struct{ Alert, Record string }
				}
			}
			if err := yaml.Unmarshal([]byte(text), &file); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			for _, g := range file.Groups {
				for _, r := range g.Rules {
					out = append(out, r.Alert+r.Record)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
