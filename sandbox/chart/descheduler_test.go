package chart

import (
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestNeighbourDescheduler: with the policy of docs/KNOWN_ISSUES.md the descheduler does not evict pods
// because of the cordon of their node, such as the cordon during a repartition. It still evicts pods because
// of another taint.
func TestNeighbourDescheduler(t *testing.T) {
	x, b := begin(t)
	descheduler := b.neighbour(t, build.Descheduler, "descheduler")
	x.pool()
	x.add(x.text("servers.yaml"))
	x.wait("two servers", func() error { return x.count("app=serve", 2, corev1.PodRunning) })
	var pods corev1.PodList
	x.must(b.Admin.List(t.Context(), &pods, client.InNamespace(guests), client.MatchingLabels{"app": "serve"}))
	cordoned, tainted := &pods.Items[0], &pods.Items[1]
	x.patch("{apiVersion: v1, kind: Node, metadata: {name: " + cordoned.Spec.NodeName + "}, spec: {unschedulable: true}}")
	x.wait("the cordon's taint", func() error {
		var n corev1.Node
		err := b.Admin.Get(t.Context(), client.ObjectKey{Name: cordoned.Spec.NodeName}, &n)
		if err == nil && len(n.Spec.Taints) == 0 {
			err = errNotYet
		}
		return err
	})
	taint := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":[{"key":"example.org/away","effect":"NoSchedule"}]}}`))
	x.must(b.Admin.Patch(t.Context(), testenv.Object("v1/Node", "", tainted.Spec.NodeName), taint))
	out, err := exec.CommandContext(patient(t), descheduler, "--kubeconfig="+b.Cluster.Kubeconfig(), "--policy-config-file=testdata/neighbours/descheduler-policy.yaml", "--disable-metrics", "--secure-port=0").CombinedOutput()
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
