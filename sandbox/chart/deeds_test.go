package chart

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/await"
)

const (
	apiServiceKind = "apiregistration.k8s.io/v1/APIService"
	external       = "v1beta1.external.metrics.k8s.io"
	custom         = "v1beta2.custom.metrics.k8s.io"
	// servedName is the DNS name of the adapter's Service.
	servedName = adapterName + "." + installed + ".svc"
)

// deeds are the actions of faults that cannot be written as objects. Each is undone at the end of the test.
var deeds = map[string]func(*trouble){
	"the adapter may not write APIServices": func(x *trouble) { x.forbid(adapterName, "apiservices") },
	"the autoscaler may not evict":          func(x *trouble) { x.forbid(autoscalerName, "pods/eviction") },
	"the caBundle is another authority's": func(x *trouble) {
		ca, _, _ := authority(x, 10*365*24*time.Hour, servedName)
		x.patch("{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: " + external + "}, spec: {caBundle: " + base64.StdEncoding.EncodeToString(ca) + "}}")
	},
	"the adapter's certificate expires in ten days":   func(x *trouble) { x.served(10*24*time.Hour, servedName) },
	"the adapter's certificate is for another name":   func(x *trouble) { x.served(365*24*time.Hour, "gpuscale-adapter.elsewhere.svc") },
	"the CRD of pools has no interruptionsPerHour":    (*trouble).oldCRD,
	"nodes of pool refused are refused":               (*trouble).nodesRefused,
	"pool refused backs off":                          (*trouble).backsOff,
	"mig-manager has been pending for two hours":      func(x *trouble) { x.pendingSince("sliced-1", time.Now().Add(-2*time.Hour)) },
	"the autoscaler is killed, and its lease ends":    (*trouble).leaderKilled,
	"the release is upgraded to a dry run":            (*trouble).dryRunForgotten,
	"the adapter is killed":                           (*trouble).adapterKilled,
	"the adapter is no target of Prometheus":          (*trouble).unscraped,
	"two jobs scrape the exporters":                   func(x *trouble) { x.scrapedBy(exporterName, secondJob) },
	"the job that scrapes the exporters drops labels": func(x *trouble) { x.scrapedBy(droppingJob) },
	"Prometheus loads no rules":                       func(x *trouble) { x.scraping(func(s *scraping) { s.noRules = true }) },
	"exporters leave gpu_busy_ratio out":              func(x *trouble) { x.spoilMetrics(without("gpu_busy_ratio")) },
	"attribution is 900 seconds old":                  func(x *trouble) { x.spoilMetrics(saying("gpu_attribution_age_seconds", "900")) },
}

// forbid removes the rules about a resource from a ClusterRole.
func (x *trouble) forbid(role, resource string) {
	x.t.Helper()
	x.change("rbac.authorization.k8s.io/v1/ClusterRole", "", role, func(u *unstructured.Unstructured) {
		rules, _, err := unstructured.NestedSlice(u.Object, "rules")
		x.must(err)
		rules = slices.DeleteFunc(rules, func(rule any) bool {
			resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
			return slices.Contains(resources, resource)
		})
		x.must(unstructured.SetNestedSlice(u.Object, rules, "rules"))
	})
}

// served gives the adapter a certificate from a Secret, for a DNS name. The certificate's CA is valid for the
// time left.
func (x *trouble) served(left time.Duration, name string) {
	x.t.Helper()
	ca, cert, key := authority(x, left, name)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: "mine"}, Data: map[string][]byte{"tls.crt": cert, "tls.key": key}}
	x.must(x.Admin.Create(x.t.Context(), secret))
	x.cleanup(func(ctx context.Context) error {
		return errors.Join(x.Cluster.StopProgram(adapterName), x.upgrade(ctx), x.startAdapter(ctx), x.Admin.Delete(ctx, secret))
	})
	file := filepath.Join(x.Cluster.Dir(), "ca-of-mine.crt") // Helm would read a comma, as in test names, as a separator
	x.must(os.WriteFile(file, ca, 0o600))
	x.must(errors.Join(
		x.Cluster.StopProgram(adapterName),
		x.upgrade(x.t.Context(), "--force-conflicts", "--set", "adapter.certificate.source=secret", "--set", "adapter.certificate.secretName=mine", "--set-file", "adapter.certificate.caBundle="+file),
		x.writeCA(ca), x.startAdapterProcess(x.t.Context())))
}

// authority makes a CA that is valid for the time left, and a certificate for a name that it signs.
func authority(x *trouble, left time.Duration, name string) (ca, chain, key []byte) {
	x.t.Helper()
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: name, MaxAge: left + time.Hour}) // valid from an hour ago
	x.must(err)
	_, ca = pem.Decode(chain)
	return ca, chain, key
}

func (x *trouble) oldCRD() {
	x.change("apiextensions.k8s.io/v1/CustomResourceDefinition", "", "gpunodepools.gpuscale.io", func(u *unstructured.Unstructured) {
		versions, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
		x.must(err)
		spec, _, err := unstructured.NestedFieldNoCopy(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
		x.must(err)
		unstructured.RemoveNestedField(spec.(map[string]any), "properties", "interruptionsPerHour")
		unstructured.RemoveNestedField(spec.(map[string]any), "x-kubernetes-validations") // one of the validations is about that field
		x.must(unstructured.SetNestedSlice(u.Object, versions, "spec", "versions"))
	})
}

func (x *trouble) nodesRefused() {
	x.wait("the policy is in force", func() error {
		err := x.Admin.Create(x.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{v1alpha1.NodePoolLabel: "refused"}}}, client.DryRunAll)
		if err == nil {
			return errNotYet
		}
		return nil
	})
}

func (x *trouble) backsOff() {
	x.wait("the pool backs off", func() error {
		var p v1alpha1.GPUNodePool
		if err := x.Admin.Get(x.t.Context(), client.ObjectKey{Name: "refused"}, &p); err != nil {
			return await.Final(err)
		}
		if p.Status.Backoff == nil {
			return errors.New(p.Status.Reason)
		}
		return nil
	})
}

// pendingSince sets mig-manager's state on a node, with the given time in the API server's managed fields.
// The API server ignores a change of times only, so another field is changed too.
func (x *trouble) pendingSince(node string, since time.Time) {
	x.t.Helper()
	x.change("v1/Node", "", node, func(u *unstructured.Unstructured) {
		x.must(unstructured.SetNestedField(u.Object, "pending", "metadata", "labels", "nvidia.com/mig.config.state"))
	}, client.FieldOwner("mig-manager"))
	x.change("v1/Node", "", node, func(u *unstructured.Unstructured) {
		x.must(unstructured.SetNestedField(u.Object, "true", "metadata", "annotations", "example.org/looked-at"))
		fields := u.GetManagedFields()
		for i := range fields {
			if fields[i].Manager == "mig-manager" {
				fields[i].Time = &metav1.Time{Time: since}
			}
		}
		u.SetManagedFields(fields)
	})
}

func (x *trouble) leaderKilled() {
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
}

func (x *trouble) adapterKilled() {
	x.cleanup(x.startAdapter)
	x.must(x.Cluster.KillProgram(adapterName))
}

// dryRunForgotten sets autoscaler.dryRun in the chart, which means one replica. If another fault's printed
// command has scaled the Deployment before, kubectl owns that field.
func (x *trouble) dryRunForgotten() {
	x.cleanup(func(ctx context.Context) error { return errors.Join(x.upgrade(ctx), x.restartAutoscaler(ctx)) })
	x.must(x.upgrade(x.t.Context(), "--set", "autoscaler.dryRun=true", "--force-conflicts"))
	x.wait("its pods are made again", func() error { return x.rolledOut(x.t.Context()) })
	x.must(x.restartAutoscaler(x.t.Context()))
}

// unscraped removes the adapter from Prometheus' targets.
func (x *trouble) unscraped() {
	x.cleanup(func(ctx context.Context) error { return x.scrapeProgram(ctx, adapterName, x.adapter) })
	x.must(x.writeTargets(adapterName, nil))
}

// scrapedBy makes other jobs scrape the exporters' pages.
func (x *trouble) scrapedBy(jobs ...string) {
	x.t.Cleanup(func() { x.fleet.scrapedBy(exporterName) })
	x.fleet.scrapedBy(jobs...)
}

// scraping changes Prometheus' configuration.
func (x *trouble) scraping(change func(*scraping)) {
	x.t.Helper()
	was := x.scrape
	change(&x.scrape)
	x.cleanup(func(ctx context.Context) error {
		x.scrape = was
		return x.Cluster.ReloadPrometheus(ctx, x.scrape.config())
	})
	x.must(x.Cluster.ReloadPrometheus(x.t.Context(), x.scrape.config()))
}

// spoilMetrics changes the exporters' series.
func (x *trouble) spoilMetrics(spoil func([]byte) []byte) {
	x.t.Cleanup(func() { x.fleet.spoilMetrics(nil) })
	x.fleet.spoilMetrics(spoil)
}
