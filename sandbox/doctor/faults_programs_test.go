package doctor

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What becomes of programs and their rights.
var programFaults = []fault{
	{
		name: "the autoscaler has died",
		seed: func(x *trouble) {
			x.must(x.cluster.KillProgram(autoscalerName))
			x.cleanup(x.startAutoscaler)
			x.wait("its lease is over", func() error {
				var l coordinationv1.Lease
				if err := x.admin.Get(x.t.Context(), client.ObjectKey{Namespace: installed, Name: autoscalerName}, &l); err != nil {
					return fatal{err}
				}
				if time.Since(l.Spec.RenewTime.Time) < 2*time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second {
					return errNotYet
				}
				return nil
			})
		},
		check: "leader", objects: []string{"Lease " + installed + "/" + autoscalerName},
		brings: []string{"scrape-missing"}, // who is dead answers no scrape
		by:     "the Deployment, once its pods are made anew",
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
			x.must(x.cluster.KillProgram(adapterName))
			for _, name := range []string{external, "v1beta1.custom.metrics.k8s.io", custom} {
				// By itself the API server looks every half minute.
				x.change(apiServiceKind, "", name, mark(nil, map[string]string{"example.org/looked-at": "true"}))
			}
		},
		check:   "apiservice-unavailable",
		objects: []string{"APIService " + external, "APIService v1beta1.custom.metrics.k8s.io", "APIService " + custom}, says: "Available=False",
		brings: []string{"scrape-missing", "hpa-metric-unknown"}, // who is dead answers nobody
		by:     "the Deployment, once its pods are made anew",
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
		seed:  func(x *trouble) { x.dryRun() },
		check: "pool-frozen", objects: []string{"Deployment " + installed + "/" + autoscalerName}, says: "--dry-run", typed: true,
	},
}

// dryRun is what the chart makes of autoscaler.dryRun.
func (x *trouble) dryRun() {
	x.cleanup(func(ctx context.Context) error { return x.upgrade(ctx) })
	x.must(x.upgrade(x.t.Context(), "--set", "autoscaler.dryRun=true"))
	x.wait("its pods are made anew", func() error { return x.rolledOut(x.t.Context()) })
}

// What people do to Prometheus, and what exporters say.
var scrapeFaults = []fault{
	{
		name:  "the adapter is not scraped",
		seed:  func(x *trouble) { x.unscraped() },
		check: "scrape-missing", objects: []string{"Deployment " + installed + "/" + adapterName},
		by: "whoever runs Prometheus",
	},
	{
		name:  "exporters are scraped by two jobs",
		seed:  func(x *trouble) { x.scrapedBy(exporterName, secondJob) },
		check: "scraped-twice", objects: []string{"scrape job " + secondJob},
		by: "whoever runs Prometheus",
	},
	{
		name:  "the holder's labels are dropped",
		seed:  func(x *trouble) { x.scrapedBy(droppingJob) },
		check: "honor-labels", objects: []string{"scrape job " + droppingJob},
		brings: []string{"hpa-inactive"}, // nobody is said to hold a card
		by:     "whoever runs Prometheus",
	},
	{
		name:  "Prometheus has no recording rules",
		seed:  func(x *trouble) { x.scraping(func(s *scraping) { s.noRules = true }) },
		check: "recording-rules-missing", objects: []string{"Prometheus"},
		by: "whoever runs Prometheus",
	},
	{
		name:  "Prometheus keeps less than the report looks at",
		seed:  func(x *trouble) { x.scraping(func(s *scraping) { s.retention = "2d" }) },
		check: "retention-short", objects: []string{"Prometheus"}, says: "2d",
		by: "whoever runs Prometheus",
	},
	{
		name: "a node's clock is ahead",
		seed: func(x *trouble) {
			ahead := metav1.NowMicro().Add(time.Hour).UTC().Format(metav1.RFC3339Micro)
			x.change("coordination.k8s.io/v1/Lease", "kube-node-lease", "whole-1", func(u *unstructured.Unstructured) {
				spec := u.Object["spec"].(map[string]any)
				// Held by the node itself, as by a kubelet: KWOK renews its own, every other
				// minute, and would set this clock right.
				spec["renewTime"], spec["holderIdentity"] = ahead, "whole-1"
			})
		},
		check: "clock-skew", objects: []string{"Node whole-1"}, says: "ahead",
		by: "whoever runs the node",
	},
	{
		name:  "cards are not profiled",
		seed:  func(x *trouble) { x.telling(without("gpu_busy_ratio")) },
		check: "prof-absent", objects: []string{"Node whole-1"},
		brings: []string{"hpa-inactive"}, // what it follows is not measured
		by:     "whoever runs the node's DCGM",
	},
	{
		name:  "kubelets do not say who holds what",
		seed:  func(x *trouble) { x.telling(saying("gpu_attribution_age_seconds", "900")) },
		check: "attribution-stale", objects: []string{"Node sliced-1", "Node whole-1"},
		by: "whoever runs the node's kubelet",
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
