package chart

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
)

// What becomes of programs and their rights.
var programFaults = []fault{
	{
		name: "the autoscaler has died",
		seed: func(x *trouble) {
			x.must(x.Cluster.KillProgram(autoscalerName))
			x.cleanup(x.startAutoscaler)
			x.wait("its lease is over", func() error {
				var l coordinationv1.Lease
				if err := x.Admin.Get(x.t.Context(), client.ObjectKey{Namespace: installed, Name: autoscalerName}, &l); err != nil {
					return await.Final(err)
				}
				if time.Since(l.Spec.RenewTime.Time) < 2*time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second {
					return errNotYet
				}
				return nil
			})
		},
		check: "leader", objects: []string{"Lease " + installed + "/" + autoscalerName},
		brings: []string{"scrape-missing"}, // who is dead answers no scrape
	},
	{
		name:  "the autoscaler was scaled to nothing",
		seed:  func(x *trouble) { x.set("apps/v1/Deployment", installed, autoscalerName, int64(0), "spec", "replicas") },
		check: "leader", objects: []string{"Deployment " + installed + "/" + autoscalerName}, says: "spec.replicas is 0", typed: true,
	},
	{
		name: "the adapter has died",
		seed: func(x *trouble) {
			x.cleanup(x.startAdapter)
			x.must(x.Cluster.KillProgram(adapterName))
			for _, name := range []string{external, "v1beta1.custom.metrics.k8s.io", custom} {
				// By itself the API server looks every half minute.
				x.change(apiServiceKind, "", name, mark(nil, map[string]string{"example.org/looked-at": "true"}))
			}
		},
		check:   "apiservice-unavailable",
		objects: []string{"APIService " + external, "APIService v1beta1.custom.metrics.k8s.io", "APIService " + custom}, says: "Available=False",
		brings: []string{"scrape-missing", "hpa-metric-unknown"}, // a dead adapter answers no scrape and no HPA
	},
	{
		name: "the adapter may not ask who callers are",
		seed: func(x *trouble) {
			x.without("rbac.authorization.k8s.io/v1/ClusterRoleBinding", "", "gpuscale-adapter-auth-delegator")
		},
		check: "adapter-rights", objects: []string{"ServiceAccount " + installed + "/" + adapterName}, says: "system:auth-delegator", typed: true,
		// Once what it has asked is too old: it knows neither who scrapes nor what the HPA controller may.
		brings: []string{"scrape-missing", "hpa-inactive", "hpa-metric-unknown"},
	},
	{
		name: "the adapter may not read the front proxy's authority",
		seed: func(x *trouble) {
			x.without("rbac.authorization.k8s.io/v1/RoleBinding", "kube-system", "gpuscale-adapter-authentication-reader")
		},
		check: "adapter-rights", objects: []string{"ServiceAccount " + installed + "/" + adapterName}, says: "extension-apiserver-authentication-reader", typed: true,
	},
	{
		name:  "a dry run that was forgotten",
		seed:  func(x *trouble) { x.dryRunForgotten() },
		check: "pool-frozen", objects: []string{"Deployment " + installed + "/" + autoscalerName}, says: "--dry-run", typed: true,
	},
}

// dryRunForgotten is what the chart makes of autoscaler.dryRun.
func (x *trouble) dryRunForgotten() {
	x.cleanup(func(ctx context.Context) error { return x.upgrade(ctx) })
	x.must(x.upgrade(x.t.Context(), "--set", "autoscaler.dryRun=true"))
	x.wait("its pods are made again", func() error { return x.rolledOut(x.t.Context()) })
}

// Faults of Prometheus' configuration, and of the exporters' series.
var scrapeFaults = []fault{
	{
		name:  "the adapter is not scraped",
		seed:  func(x *trouble) { x.unscraped() },
		check: "scrape-missing", objects: []string{"Deployment " + installed + "/" + adapterName},
	},
	{
		name: "exporters are scraped by two jobs", always: true,
		seed:  func(x *trouble) { x.scrapedBy(exporterName, secondJob) },
		check: "scraped-twice", objects: []string{"scrape job " + secondJob},
	},
	{
		name:  "the labels of the pod are dropped",
		seed:  func(x *trouble) { x.scrapedBy(droppingJob) },
		check: "honor-labels", objects: []string{"scrape job " + droppingJob},
		brings: []string{"hpa-inactive"}, // no GPU is reported as allocated
	},
	{
		name:  "Prometheus has no recording rules",
		seed:  func(x *trouble) { x.scraping(func(s *scraping) { s.noRules = true }) },
		check: "recording-rules-missing", objects: []string{"Prometheus"},
	},
	{
		name:  "Prometheus keeps less than the report looks at",
		seed:  func(x *trouble) { x.scraping(func(s *scraping) { s.retention = "2d" }) },
		check: "retention-short", objects: []string{"Prometheus"}, says: "2d",
	},
	{
		name: "a node's clock is ahead",
		seed: func(x *trouble) {
			ahead := metav1.NowMicro().Add(time.Hour).UTC().Format(metav1.RFC3339Micro)
			x.change("coordination.k8s.io/v1/Lease", "kube-node-lease", "whole-1", func(u *unstructured.Unstructured) {
				spec := u.Object["spec"].(map[string]any)
				// The node itself is the holder, as with a kubelet: KWOK renews its own
				// leases every other minute, and would correct this one.
				spec["renewTime"], spec["holderIdentity"] = ahead, "whole-1"
			})
		},
		check: "clock-skew", objects: []string{"Node whole-1"}, says: "ahead",
	},
	{
		name:  "GPUs are not profiled",
		seed:  func(x *trouble) { x.spoilMetrics(without("gpu_busy_ratio")) },
		check: "prof-absent", objects: []string{"Node whole-1"},
		brings: []string{"hpa-inactive"}, // what it follows is not measured
	},
	{
		name:  "kubelets do not report allocations",
		seed:  func(x *trouble) { x.spoilMetrics(saying("gpu_attribution_age_seconds", "900")) },
		check: "attribution-stale", objects: []string{"Node sliced-1", "Node whole-1"},
	},
}

// unscraped takes the adapter from Prometheus.
func (x *trouble) unscraped() {
	x.cleanup(func(ctx context.Context) error { return x.scrapeProgram(ctx, adapterName, x.adapter) })
	x.must(x.writeTargets(adapterName, nil))
}

// scrapedBy gives the exporters' pages to other jobs for as long as the test lasts.
func (x *trouble) scrapedBy(jobs ...string) {
	x.t.Cleanup(func() { x.fleet.scrapedBy(exporterName) })
	x.fleet.scrapedBy(jobs...)
}
