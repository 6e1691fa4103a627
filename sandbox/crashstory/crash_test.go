package crashstory

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

const (
	lender    = "lender" // a namespace; the others are borrower, and free, which is under no quota
	gangName  = "gang"
	gangLabel = "scheduling.x-k8s.io/pod-group"
	half      = "nvidia.com/mig-3g.40gb"
)

// step is a part of the story: what users do, and a function that reports which result is still missing.
type step struct {
	name    string
	do      func(*world)
	missing func(*world) error
}

// steps in order. In each, the autoscaler has exactly one best choice, so runs can be compared.
var steps = []step{
	{"a node is added for the minimum", func(*world) {}, running("")},
	{"a GPU is repartitioned for a pod that needs a third of it", func(w *world) { w.pod("free", "slice", half, 1) }, running("slice")},
	{"a gang of two nodes comes at once", func(w *world) {
		w.gang = true
		for _, name := range []string{"gang-0", "gang-1"} {
			w.pod(lender, name, partition.GPUResource, 2, func(p *corev1.Pod) { p.Labels = map[string]string{gangLabel: gangName} })
		}
	}, running("gang-0", "gang-1")},
	{"half of it ends, and another namespace borrows its GPUs", func(w *world) {
		w.gang = false
		w.pod("borrower", "borrower", partition.GPUResource, 2)
		w.end("gang-0")
	}, running("borrower")},
	{"the borrowed GPUs are reclaimed", func(w *world) { w.pod(lender, "owner", partition.GPUResource, 2) }, running("owner")},
	{"two small pods come, and one of them has a place", func(w *world) {
		w.pod("free", "movable", partition.GPUResource, 1)
		w.pod("free", "bound", partition.GPUResource, 1, pinned)
		w.end("owner")
	}, running("movable")},
	{"an underused node is drained and removed", func(w *world) { w.end("gang-1") }, func(w *world) error {
		if w.find("movable") == nil { // its controller creates it again
			w.pod("free", "movable", partition.GPUResource, 1, pinned)
		}
		return errors.Join(running("bound", "movable")(w), gone("whole-1")(w))
	}},
	{"the last node of the pool goes", func(w *world) { w.end("movable", "bound") }, gone("whole-1", "whole-2")},
}

// Numbers of reconciles before the next step begins (seen) and before the end (settled).
const (
	patience = 100
	seen     = 3
	settled  = 10
)

// play plays the story and returns the state at its end.
func (w *world) play() ([]string, error) {
	w.t.Helper()
	for _, s := range steps {
		s.do(w)
		missing := errors.New("")
		for n := 0; missing != nil; n++ {
			w.turn()
			if missing = errors.Join(s.missing(w), w.clean()); missing != nil && n == patience {
				last, _ := w.loop.State.Last()
				return nil, fmt.Errorf("stuck where %s: %w\n%s", s.name, errors.Join(missing, w.err), last.Plan)
			}
		}
		for range seen {
			w.turn()
		}
	}
	for range settled {
		w.turn()
	}
	return w.state(), nil
}

// TestCrashStory kills the autoscaler before and after each write of the story. It also replaces the answer
// to each write by a lost one, a conflict, or "too many requests". Then a random fifth of all writes gets one
// of these faults. The end state must be the same each time, and every action must have been done as often.
func TestCrashStory(t *testing.T) {
	honest := newWorld(t, func(int, string) fault { return none })
	want, err := honest.play()
	require.NoError(t, err)
	t.Logf("%d writes; in the end\n%s", len(honest.calls), strings.Join(want, "\n"))
	for nth, call := range honest.calls {
		for i, f := range all {
			// A kill after one write is the same as a kill before the next.
			if !testall.Enabled() && f != after && (nth+i)%8 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%d %s: %s", nth+1, call, f), func(t *testing.T) {
				try(t, want, func(n int, _ string) fault {
					if n == nth+1 {
						return f
					}
					return none
				})
			})
		}
	}
	for _, f := range all {
		t.Run("the first of each kind: "+string(f), func(t *testing.T) {
			met := map[string]bool{}
			try(t, want, func(_ int, call string) fault {
				if met[call] {
					return none
				}
				met[call] = true
				return f
			})
		})
	}
	runs := 5
	if testall.Enabled() {
		runs = 60
	}
	random := rand.New(rand.NewPCG(uint64(testall.Seed(t, 1)), 1))
	for n := range runs {
		t.Run(fmt.Sprintf("a fifth of all writes, run %d", n+1), func(t *testing.T) {
			try(t, want, func(int, string) fault {
				if random.IntN(5) > 0 {
					return none
				}
				return all[random.IntN(len(all))]
			})
		})
	}
}

// try plays the story with a fault and compares the result.
func try(t *testing.T, want []string, f func(int, string) fault) {
	t.Helper()
	w := newWorld(t, f)
	got, err := w.play()
	require.NoError(t, err)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("not %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("but %s", line)
		}
	}
}

// running returns an error for pods that do not run yet, and for a first node that does not exist.
func running(names ...string) func(*world) error {
	return func(w *world) error {
		if len(w.nodes()) == 0 {
			return errors.New("there is no node")
		}
		for _, name := range names {
			if p := w.find(name); name != "" && (p == nil || p.Status.Phase != corev1.PodRunning) {
				return fmt.Errorf("%s does not run", name)
			}
		}
		return nil
	}
}

// gone returns an error for nodes that still exist.
func gone(names ...string) func(*world) error {
	return func(w *world) error {
		for _, n := range w.nodes() {
			if slices.Contains(names, n.Name) {
				return fmt.Errorf("%s is there", n.Name)
			}
		}
		return nil
	}
}

// clean returns an error if a node has marks of an operation.
func (w *world) clean() error {
	for _, n := range w.nodes() {
		for _, key := range []string{contract.RecordAnnotation, v1alpha1.DrainAnnotation, v1alpha1.CordonAnnotation} {
			if _, there := n.Annotations[key]; there || n.Spec.Unschedulable {
				return fmt.Errorf("node %s: cordoned %v, annotations %v", n.Name, n.Spec.Unschedulable, slices.Sorted(maps.Keys(n.Annotations)))
			}
		}
	}
	return nil
}

func pinned(p *corev1.Pod) {
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "whole-2"}
}

// pod creates a pending pod that has a controller.
func (w *world) pod(namespace, name, of string, n int64, change ...func(*corev1.Pod)) {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: "job", Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceName(of): *resource.NewQuantity(n, resource.DecimalSI), "cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi"),
		}}}}},
	}
	p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
	for _, c := range change {
		c(p)
	}
	w.create(p)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(w.now),
	}}}
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), p))
}

// find returns a pod, or nil.
func (w *world) find(name string) *corev1.Pod {
	w.t.Helper()
	for _, p := range w.pods() {
		if p.Name == name {
			return &p
		}
	}
	return nil
}

// end deletes pods, as their owners would.
func (w *world) end(names ...string) {
	w.t.Helper()
	for _, name := range names {
		require.NoError(w.t, w.client.Delete(w.t.Context(), w.find(name)))
	}
}
