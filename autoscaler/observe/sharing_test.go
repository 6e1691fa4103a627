package observe

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

// sharingPool is a pool of nodes with two GPUs, each shared by four.
func sharingPool(rename, fail bool) *v1alpha1.GPUNodePool {
	p := poolOf("NVIDIA-L40S", 2)
	p.Spec.Max = 20
	p.Spec.Template.Sharing = &v1alpha1.GPUSharing{Replicas: 4, RenameByDefault: rename, FailRequestsGreaterThanOne: fail}
	return p
}

// sharingNode is a node of that pool, as GFD (k8s-device-plugin v0.17) labels it.
func sharingNode(name string, rename bool) *corev1.Node {
	resource, product := partition.GPUResource, "NVIDIA-L40S-SHARED"
	if rename {
		resource, product = partition.SharedResource, "NVIDIA-L40S"
	}
	n := bare(name, amount(resource, 8))
	n.Labels[partition.PresentLabel], n.Labels[partition.CountLabel], n.Labels[partition.ProductLabel] = "true", "2", product
	n.Labels[partition.ReplicasLabel], n.Labels[partition.SharingLabel] = "4", "time-slicing"
	return n
}

// TestSharedGPUs: shares of GPUs are counted as the scheduler counts them: nodes are added for as many
// as a node has, also from zero and beside full nodes, and none while one is free.
func TestSharedGPUs(t *testing.T) {
	for _, rename := range []bool{true, false} {
		resource := map[bool]string{true: partition.SharedResource, false: partition.GPUResource}[rename]
		pods := func(running, pending int) (out []client.Object) {
			for i := range running {
				out = append(out, pod(fmt.Sprint("r", i), "n", amount(resource, 1)))
			}
			for i := range pending {
				out = append(out, stuckPod(fmt.Sprint("p", i), amount(resource, 1)))
			}
			return out
		}
		with := func(n client.Object, pods []client.Object) []client.Object {
			return append(pods, sharingPool(rename, false), n)
		}
		for name, c := range map[string]struct {
			objects []client.Object
			want    plan.Reason
			added   int
		}{
			"from zero":              {append(pods(0, 9), sharingPool(rename, false)), plan.WaitUpcomingNode, 2},
			"all taken":              {with(sharingNode("n", rename), pods(8, 9)), plan.WaitUpcomingNode, 2},
			"one is free":            {with(sharingNode("n", rename), pods(7, 1)), plan.WaitScheduler, 0},
			"the node is not up yet": {with(booting("n"), pods(0, 8)), plan.WaitUpcomingNode, 0},
		} {
			t.Run(fmt.Sprintf("%s, renamed %t", name, rename), func(t *testing.T) {
				w := newWorld(t, c.objects...)
				if got := w.verdictOn("p0", 10*time.Second, c.added); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		}
	}
}

// TestWholeGPUsBesideShares: a whole GPU is no share of one, and a share no whole GPU.
func TestWholeGPUsBesideShares(t *testing.T) {
	whole := poolOf("NVIDIA-L40S", 1)
	whole.Name, whole.Spec.Provider = "whole", nodegroups.Of("whole")
	w := newWorld(t, sharingPool(true, false), whole, sharingNode("n", true), stuckPod("gpu", amount(partition.GPUResource, 1)),
		stuckPod("share", amount(partition.SharedResource, 1)))
	made := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy())
	if len(made.Actions) != 1 || made.Actions[0].Pool != "whole" || fmt.Sprint(made.Actions[0].For) != "[chat/gpu]" {
		t.Errorf("%s", made)
	}
}

// TestSharesAreLearned: a pool whose template states no sharing adds nodes like those that it has.
func TestSharesAreLearned(t *testing.T) {
	p := sharingPool(true, false)
	p.Spec.Template.Sharing = nil
	objects := []client.Object{p, sharingNode("n", true), stuckPod("whole", amount(partition.GPUResource, 1))}
	for i := range 8 {
		objects = append(objects, pod(fmt.Sprint("r", i), "n", amount(partition.SharedResource, 1)), stuckPod(fmt.Sprint("p", i), amount(partition.SharedResource, 1)))
	}
	w := newWorld(t, objects...)
	if got := w.verdictOn("p0", 0, 1); got != plan.WaitUpcomingNode {
		t.Errorf("a share: %s", got)
	}
	if got := w.verdictOn("whole", 0, 1); got != plan.NoPoolFits {
		t.Errorf("a whole GPU: %s", got)
	}
}

// TestRequestsGreaterThanOne: a container that the device plugin would fail gets no node; elsewhere its
// shares count.
func TestRequestsGreaterThanOne(t *testing.T) {
	for _, resource := range []string{partition.SharedResource, partition.GPUResource} {
		rename := resource == partition.SharedResource
		for fail, want := range map[bool]plan.Reason{true: plan.NoPoolFits, false: plan.WaitUpcomingNode} {
			w := newWorld(t, sharingPool(rename, fail), stuckPod("a", amount(resource, 2)))
			if got := w.verdictOn("a", 0, map[bool]int{false: 1}[fail]); got != want {
				t.Errorf("two of %s, failRequestsGreaterThanOne %t: %s, want %s", resource, fail, got, want)
			}
		}
	}
}

// TestSharesInQuotas: a share counts as its part of a GPU, a bound pod's by its node.
func TestSharesInQuotas(t *testing.T) {
	n := sharingNode("n", true)
	n.Labels[partition.ReplicasLabel] = "2"
	w := newWorld(t, sharingPool(true, false), n, pod("bound", "n", amount(partition.SharedResource, 1)), stuckPod("pending", amount(partition.SharedResource, 1)))
	out := w.at(0)
	scale := plan.NewScale(out.Tables, nil)
	for _, p := range out.Pods {
		want := map[string]quota.Amount{"bound": {Compute: 4, Memory: 4}, "pending": {Compute: 2, Memory: 2}}[p.Name]
		if got := scale.Amount(&p.Demand, 48<<10); got != want {
			t.Errorf("%s: %v of 7+8 slices, want %v", p.Name, got, want)
		}
	}
}

// TestEmptySharedNodesGo: without an exporter too, the pods of a node with shared GPUs are its
// allocations.
func TestEmptySharedNodesGo(t *testing.T) {
	objects := []client.Object{sharingPool(true, false), sharingNode("n", true), sharingNode("used", true), pod("a", "used", amount(partition.SharedResource, 1))}
	w := newWorld(t, objects...)
	var removed []string
	for i := range 61 {
		out := w.at(time.Duration(i) * 15 * time.Second)
		out.State = w.state
		made := plan.Make(out.Snapshot, plan.DefaultPolicy())
		w.state = made.State
		for _, a := range made.Actions {
			if a.Verb == plan.RemoveNode {
				removed = append(removed, a.Node)
			}
		}
	}
	if len(removed) == 0 || removed[0] != "n" || removed[len(removed)-1] != "n" {
		t.Errorf("removed %v, want n", removed)
	}
}
