package chart

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/build"
)

// deschedulerPolicy is the plugin of the default policy that evicts for taints, with the argument of
// docs/KNOWN_ISSUES.md.
const deschedulerPolicy = `
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig:
  - {name: DefaultEvictor, args: {}}
  - {name: RemovePodsViolatingNodeTaints, args: {excludedTaints: [node.kubernetes.io/unschedulable]}}
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
`

// TestNeighbourDescheduler: with that policy the descheduler leaves the pods of a cordoned node alone, as
// nodes are while their GPUs are repartitioned. It evicts for another taint.
func TestNeighbourDescheduler(t *testing.T) {
	x, b := begin(t)
	descheduler := b.neighbour(t, build.Descheduler, "descheduler")
	x.pool()
	x.add(fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: guests, name: serve}
spec:
  replicas: 2
  selector: {matchLabels: {app: serve}}
  template: {metadata: {labels: {app: serve}}, %s
`, strings.Replace(gangPod[1:], "Never", "Always", 1)))
	x.wait("two servers", func() error { return x.count("app=serve", 2, corev1.PodRunning) })
	var pods corev1.PodList
	x.must(b.Admin.List(t.Context(), &pods, client.InNamespace(guests), client.MatchingLabels{"app": "serve"}))
	cordoned, tainted := &pods.Items[0], &pods.Items[1]
	x.set("v1/Node", "", cordoned.Spec.NodeName, true, "spec", "unschedulable")
	x.wait("the cordon's taint", func() error {
		var n corev1.Node
		err := b.Admin.Get(t.Context(), client.ObjectKey{Name: cordoned.Spec.NodeName}, &n)
		if err == nil && len(n.Spec.Taints) == 0 {
			err = errNotYet
		}
		return err
	})
	x.update("v1/Node", "", tainted.Spec.NodeName, func(u *unstructured.Unstructured) {
		x.must(unstructured.SetNestedSlice(u.Object, []any{map[string]any{"key": "example.org/away", "effect": "NoSchedule"}}, "spec", "taints"))
	})
	out, err := exec.CommandContext(patient(t), descheduler, "--kubeconfig="+b.Cluster.Kubeconfig(), "--policy-config-file="+x.file("policy.yaml", deschedulerPolicy), "--disable-metrics", "--secure-port=0").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	gone := func(p *corev1.Pod) bool {
		now, err := x.pod(p.Name)
		return client.IgnoreNotFound(err) == nil && (err != nil || now.DeletionTimestamp != nil)
	}
	if gone(cordoned) || !gone(tainted) {
		t.Errorf("the pod of the cordoned node is gone: %v; that of the tainted one: %v\n%s", gone(cordoned), gone(tainted), out)
	}
}
