package chart

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

const (
	// envGPUOperator names a checkout of NVIDIA's GPU Operator with its program in the folder itself, as `make
	// gpu-operator` leaves it. The tests cannot compile it, since it has no module that can be downloaded.
	envGPUOperator = "GPUSCALE_TEST_GPU_OPERATOR"
	// operatorAssets is the folder in which the program reads its manifests, as in its image. No flag changes it.
	operatorAssets = "/opt/gpu-operator"

	policyKind    = "nvidia.com/v1/ClusterPolicy"
	policyName    = "cluster-policy"
	upgradeState  = "nvidia.com/gpu-driver-upgrade-state"
	upgradeSkip   = "nvidia.com/gpu-driver-upgrade.skip"
	operatorSpace = "gpu-operator"
	idleNode      = "cpu-1"
)

// discovered are NFD's labels by which the Operator recognizes a node with GPUs, and labels of the operating
// system.
var discovered = map[string]string{
	"feature.node.kubernetes.io/pci-10de.present":             "true",
	"feature.node.kubernetes.io/kernel-version.full":          "6.8.0-generic",
	"feature.node.kubernetes.io/system-os_release.ID":         "ubuntu",
	"feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
}

// TestNeighbourGPUOperator: with the values of docs/mig.md, NVIDIA's GPU Operator labels the nodes and its
// DaemonSets follow the labels. A node whose driver it upgrades is no supply and is not removed until the
// Operator uncordons it. doctor reports a second exporter and a failed upgrade, and its commands repair them.
// The Operator's pods run nothing: KWOK simulates them, and no driver manager pauses them.
func TestNeighbourGPUOperator(t *testing.T) {
	x, b := begin(t)
	dir := os.Getenv(envGPUOperator)
	if dir == "" {
		t.Skip(envGPUOperator + " names no checkout of the GPU Operator with its program")
	}
	o := &gpuOperator{tale: x}
	o.uninstalled()
	o.install(dir)
	x.pool()
	labels := map[string]any{}
	for key, value := range discovered {
		labels[key] = value
	}
	x.patchObject(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "GPUNodePool", "metadata": map[string]any{"name": "gang"},
		"spec": map[string]any{"template": map[string]any{"labels": labels}},
	}})

	x.wait("the Operator's components", func() error { return o.ready() })
	x.must(o.components())
	o.exporterClass("nvidia")

	// Its exporter runs beside ours until doctor's command ends it.
	o.repaired("two-exporters", "DaemonSet "+operatorSpace+"/nvidia-dcgm-exporter")

	x.add(operatorPod("held"))
	x.wait("a node for the first pod", func() error { return x.running("held") })
	first := o.nodeOf("held")
	x.wait("the labels of a new node", func() error {
		n, err := o.node(first)
		if err == nil && (n.Labels["nvidia.com/gpu.deploy.client"] != "true" || n.Labels["nvidia.com/gpu.deploy.mig-manager"] != "true" || n.Labels["nvidia.com/mig.config"] != "all-disabled") {
			err = fmt.Errorf("%v", n.Labels)
		}
		return errors.Join(err, o.nudged(first, "upgrade-done", false))
	})

	// An upgrade that waits for a job: the node's free GPU is no supply, and gpuscale does not change the node, even
	// after the job has ended.
	o.policy(`{"driver":{"version":"600.1","upgradePolicy":{"waitForCompletion":{"podSelector":"app=held"}}}}`)
	x.wait("an upgrade that waits", func() error { return o.nudged(first, "wait-for-jobs-required", true) })
	x.add(operatorPod("next"))
	x.wait("another node for the next pod", func() error { return x.running("next") })
	second := o.nodeOf("next")
	x.must(x.Delete(t.Context(), testenv.Object("v1/Pod", guests, "held")))
	x.reconciled()
	x.must(o.upgrade(first, "wait-for-jobs-required", true))
	if n, err := o.node(first); err != nil || n.Annotations[v1alpha1.CordonAnnotation] != "" || second == first {
		t.Errorf("node %s: %v, annotations %v; the next pod is on %s", first, err, n.Annotations, second)
	}
	x.wait("its end", func() error { return o.over(first) })

	// An upgrade that fails, because a pod without a controller has a GPU.
	o.policy(`{"driver":{"version":"600.2","upgradePolicy":{"waitForCompletion":{"podSelector":""}}}}`)
	x.wait("an upgrade that fails", func() error { return o.nudged(second, "upgrade-failed", true) })
	x.must(x.Delete(t.Context(), testenv.Object("v1/Pod", guests, "next")))
	x.reconciled()
	x.must(o.upgrade(second, "upgrade-failed", true))
	o.repaired("cordon-forgotten", "Node "+second)
	x.wait("the end of the upgrade that failed", func() error { return o.over(second) })

	// With the NRI plugin there is no RuntimeClass.
	o.policy(`{"cdi":{"nriPluginEnabled":true}}`)
	x.wait("the end of the RuntimeClass", func() error { return o.noClass(t.Context()) })
	o.exporterClass("")

	// With DRA the labels are different. The Operator's pods wait for claims to devices that no driver offers, and
	// stay without a node.
	x.must(x.Delete(t.Context(), testenv.Object(policyKind, "", policyName)))
	x.add(testenv.Text(t, filepath.Join(dir, "config/samples/nvidia_v1alpha1_gpucluster.yaml")))
	x.wait("the labels of a GPUCluster", func() error {
		n, err := o.node("whole-1")
		if _, has := n.Labels["nvidia.com/gpu.deploy.client"]; err == nil && (has || n.Labels["nvidia.com/gpu.deploy.dcgm-exporter-dra"] != "true") {
			err = fmt.Errorf("%v", n.Labels)
		}
		return err
	})
	x.wait("pods that wait for claims", func() error {
		var list corev1.PodList
		if err := x.Admin.List(t.Context(), &list, client.InNamespace(operatorSpace), client.MatchingLabels{"app": "nvidia-dcgm-exporter-dra"}); err != nil {
			return err
		}
		if len(list.Items) < 2 || slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodPending }) {
			return fmt.Errorf("%d pods", len(list.Items))
		}
		return nil
	})
	x.reconciled()
	x.must(errors.Join(x.nodes(t.Context(), "gang", 0), x.nodes(t.Context(), "whole", 1), b.rolledOut(t.Context())))
}

// gpuOperator is the Operator's program over the objects of its own chart.
type gpuOperator struct {
	*tale
	nudges int
}

// uninstalled waits at the end of the test until the Operator's objects are gone, and then installs our chart
// for a cluster without the Operator.
func (o *gpuOperator) uninstalled() {
	o.cleanup(func(ctx context.Context) error {
		return errors.Join(until(ctx, "the end of the RuntimeClass", func() error { return o.noClass(ctx) }), o.env.upgrade(ctx))
	})
}

// noClass returns nil if the Operator's RuntimeClass does not exist.
func (o *gpuOperator) noClass(ctx context.Context) error {
	class := testenv.Object("node.k8s.io/v1/RuntimeClass", "", "nvidia")
	if err := o.Admin.Get(ctx, keyOf(class), class); !apierrors.IsNotFound(err) {
		return errors.Join(err, errNotYet)
	}
	return nil
}

// exporterClass installs our chart again. The exporter must then have this RuntimeClass.
func (o *gpuOperator) exporterClass(want string) {
	o.t.Helper()
	o.must(o.env.upgrade(o.t.Context(), poolArgs...))
	var d appsv1.DaemonSet
	o.must(o.Admin.Get(o.t.Context(), client.ObjectKey{Namespace: installed, Name: exporterName}, &d))
	if class := ptr.Deref(d.Spec.Template.Spec.RuntimeClassName, ""); class != want {
		o.t.Errorf("the exporter has the RuntimeClass %q, want %q", class, want)
	}
}

// install creates the objects of the Operator's chart with the values of docs/mig.md, and runs its program in
// place of its Deployment's pod. NFD's labels already exist: without them the Operator would remove its own
// labels from our nodes.
func (o *gpuOperator) install(dir string) {
	o.t.Helper()
	if err := os.Mkdir(operatorAssets, 0o755); err != nil {
		o.t.Fatalf("the GPU Operator needs a folder of its own: %v", err)
	}
	o.t.Cleanup(func() { _ = os.RemoveAll(operatorAssets) })
	o.must(errors.Join(os.CopyFS(operatorAssets, os.DirFS(filepath.Join(dir, "assets"))),
		os.CopyFS(filepath.Join(operatorAssets, "manifests"), os.DirFS(filepath.Join(dir, "manifests")))))
	o.keep(testenv.Object("v1/Node", "", idleNode))
	var list corev1.NodeList
	o.must(o.Admin.List(o.t.Context(), &list, client.HasLabels{v1alpha1.NodePoolLabel}))
	for i := range list.Items {
		o.change("v1/Node", "", list.Items[i].Name, func(n *unstructured.Unstructured) {
			labels := n.GetLabels()
			maps.Copy(labels, discovered)
			labels[upgradeSkip] = "true" // other tests' pods run there
			n.SetLabels(labels)
		})
	}
	blocks := testenv.YAMLBlocks(o.t, "../../docs/mig.md")
	at := slices.IndexFunc(blocks, func(text string) bool { return strings.HasPrefix(text, "# gpu-operator-values.yaml\n") })
	if at < 0 {
		o.t.Fatal("docs/mig.md has no values of the GPU Operator's chart")
	}
	text, err := o.helm.Run(o.t.Context(), chart.Release{Namespace: operatorSpace, Values: blocks[at], Args: []string{"--include-crds", "--no-hooks", "--set", "nfd.enabled=false,driver.version=600.0"}},
		"template", "gpu-operator", filepath.Join(dir, "deployments/gpu-operator"))
	o.must(err)
	objects, err := chart.Objects(text)
	o.must(err)
	o.addObjects(slices.DeleteFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "Deployment" }))
	kubeconfig, err := o.Cluster.ServiceAccountKubeconfig(o.t.Context(), operatorSpace, "gpu-operator")
	o.must(err)
	o.beside(o.t, proc.Spec{
		Name: "gpu-operator", Path: filepath.Join(dir, "gpu-operator"),
		Args: []string{"--metrics-bind-address=0", "--health-probe-bind-address=" + testenv.FreeAddress(o.t)},
		Env:  []string{"KUBECONFIG=" + kubeconfig, "OPERATOR_NAMESPACE=" + operatorSpace, "VALIDATOR_IMAGE=registry.example/validator:1", "DRIVER_MANAGER_IMAGE=registry.example/k8s-driver-manager:1"},
	})
}

// ready returns nil if the ClusterPolicy is ready.
func (o *gpuOperator) ready() error {
	p := testenv.Object(policyKind, "", policyName)
	if err := o.Admin.Get(o.t.Context(), keyOf(p), p); err != nil {
		return err
	}
	if state, _, _ := unstructured.NestedString(p.Object, "status", "state"); state != "ready" {
		return fmt.Errorf("its state is %q: %v", state, p.Object["status"])
	}
	return nil
}

// components checks the Operator's DaemonSets: each follows its own label, the agent finds the device
// plugin's pods, and mig-manager reads our layouts.
func (o *gpuOperator) components() error {
	var list appsv1.DaemonSetList
	if err := o.Admin.List(o.t.Context(), &list, client.InNamespace(operatorSpace)); err != nil {
		return err
	}
	follow := map[string]string{}
	for _, d := range list.Items {
		for key := range d.Spec.Template.Spec.NodeSelector {
			follow[d.Name] = strings.TrimPrefix(key, "nvidia.com/gpu.deploy.")
		}
		if d.Name == "nvidia-mig-manager" && !slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == "gpuscale-mig-config" }) {
			return fmt.Errorf("mig-manager has the volumes %+v", d.Spec.Template.Spec.Volumes)
		}
		if d.Name == "nvidia-device-plugin-daemonset" && d.Spec.Template.Labels["app"] != d.Name {
			return fmt.Errorf("the device plugin's pods have the labels %v", d.Spec.Template.Labels)
		}
	}
	want := map[string]string{
		"gpu-feature-discovery": "gpu-feature-discovery", "nvidia-container-toolkit-daemonset": "container-toolkit", "nvidia-dcgm-exporter": "dcgm-exporter",
		"nvidia-device-plugin-daemonset": "device-plugin", "nvidia-driver-daemonset": "driver", "nvidia-mig-manager": "mig-manager", "nvidia-operator-validator": "operator-validator",
	}
	for name, label := range want {
		if follow[name] != label {
			return fmt.Errorf("the DaemonSets follow %v, want %v", follow, want)
		}
	}
	return nil
}

// policy changes the spec of the ClusterPolicy.
func (o *gpuOperator) policy(spec string) {
	o.t.Helper()
	o.must(o.Admin.Patch(o.t.Context(), testenv.Object(policyKind, "", policyName), client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`))))
}

func (o *gpuOperator) node(name string) (*corev1.Node, error) {
	var n corev1.Node
	return &n, o.Admin.Get(o.t.Context(), client.ObjectKey{Name: name}, &n)
}

func (o *gpuOperator) nodeOf(pod string) string {
	o.t.Helper()
	p, err := o.pod(pod)
	o.must(err)
	return p.Spec.NodeName
}

// upgrade returns nil if a node's driver upgrade is in the state, and the node is cordoned or not, as given.
func (o *gpuOperator) upgrade(name, state string, cordoned bool) error {
	n, err := o.node(name)
	if err == nil && (n.Labels[upgradeState] != state || n.Spec.Unschedulable != cordoned || !kube.NodeReady(n)) {
		err = fmt.Errorf("node %s: %s, cordoned %v; want %s, %v", name, n.Labels[upgradeState], n.Spec.Unschedulable, state, cordoned)
	}
	return err
}

// nudged is upgrade, and makes the Operator check again at once. It checks pods only every two minutes, but
// reacts when its skip label changes on a node.
func (o *gpuOperator) nudged(name, state string, cordoned bool) error {
	o.nudges++
	nudge := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"%d"}}}`, upgradeSkip, o.nudges)
	return errors.Join(o.Admin.Patch(o.t.Context(), testenv.Object("v1/Node", "", idleNode), client.RawPatch(types.MergePatchType, nudge)), o.upgrade(name, state, cordoned))
}

// over returns nil if a node's upgrade has ended. The node is then idle in our pool, so it is removed at
// once.
func (o *gpuOperator) over(name string) error {
	err := o.nudged(name, "upgrade-done", false)
	if _, gone := o.node(name); apierrors.IsNotFound(gone) {
		return nil
	}
	return err
}

// repaired waits until doctor reports the check for this object, runs the printed commands, and waits until
// doctor reports nothing.
func (o *gpuOperator) repaired(check, object string) {
	o.t.Helper()
	alone := func(v visit) bool {
		return slices.ContainsFunc(v.of(check).Findings, func(f finding) bool { return f.Object == object }) && len(v.worse(o.normal, check)) == 0
	}
	v := o.askUntil(o.t, alone)
	if !alone(v) {
		o.t.Fatalf("%s: %v; else %v", check, v.of(check), v.worse(o.normal, check))
	}
	for _, f := range v.of(check).Findings {
		o.t.Log(f)
		for _, command := range f.Commands {
			o.must(o.typeIn(o.t, command))
		}
	}
	if v := o.askUntil(o.t, func(v visit) bool { return len(v.worse(o.normal)) == 0 }); len(v.worse(o.normal)) > 0 {
		o.t.Errorf("after the commands: %v", v.worse(o.normal))
	}
}

// operatorPod returns a pod with a GPU and without a controller.
func operatorPod(name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: %s, name: %s, labels: {app: %[2]s}}
spec:
  nodeSelector: {gpuscale.io/pool: gang}
  containers: [{name: train, image: train, resources: {limits: {nvidia.com/gpu: "1"}}}]
`, guests, name)
}
