package crashstory

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// Pools of the story, as testdata/pools.yaml has them.
const (
	poolRepartition = "mig"
	poolWhole       = "whole"
)

// Namespaces of the story.
const (
	nsFree     = "free" // under no quota
	nsLender   = "lender"
	nsBorrower = "borrower"
)

// step of the story: what users do, and the result to wait for.
type step struct {
	name string
	do   func(*stage, context.Context) error
	// until returns what is still missing.
	until func(*stage, context.Context) error
}

// theStory in its order. Nodes are named by the provider, pods by us, and every
// choice the autoscaler has is made so that there is one best answer: runs can be
// compared.
func theStory() []step {
	return []step{
		{"a node is added for the minimum", nothing, ready("mig-1")},
		{"a GPU is repartitioned for a pod that needs a third of it", (*stage).slice, (*stage).sliced},
		{"a gang of two nodes comes at once", (*stage).gang, (*stage).gangBound},
		{"the gang is one no more", (*stage).ungang, noMore},
		{"half of it ends, and another namespace borrows its GPUs", (*stage).borrow, running(nsBorrower + "/borrower")},
		{"the borrowed GPUs are reclaimed", (*stage).wantBack, running(nsLender + "/owner")},
		{"an underused node is drained and removed", (*stage).leaveLittle, (*stage).moved},
		{"the last node of the pool goes", (*stage).leave, (*stage).empty},
	}
}

// stage is where the story is played. It stands in for the controllers of the
// pods, which make a pod again when it was moved.
type stage struct {
	client client.Client
	view   *view
	owners map[string]types.UID // by namespace
}

// ownerName of the ConfigMap in each namespace that is the pods' controller.
const ownerName = "owner"

func nothing(*stage, context.Context) error { return nil }
func noMore(*stage, context.Context) error  { return nil }

func ready(name string) func(*stage, context.Context) error {
	return func(s *stage, ctx context.Context) error {
		var n corev1.Node
		if err := s.client.Get(ctx, client.ObjectKey{Name: name}, &n); apierrors.IsNotFound(err) {
			return errors.New("node " + name + " is not there")
		} else if err != nil {
			return err
		}
		if len(partition.Advertised(&n)) == 0 || !kube.NodeReady(&n) {
			return errors.New("node " + name + " is not ready")
		}
		return nil
	}
}

// running asks for pods "namespace/name".
func running(keys ...string) func(*stage, context.Context) error {
	return func(s *stage, ctx context.Context) error {
		for _, key := range keys {
			if err := s.notRunning(ctx, key); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *stage) notRunning(ctx context.Context, key string) error {
	p, err := s.pod(ctx, key)
	switch {
	case err != nil:
		return err
	case p == nil:
		return errors.New("pod " + key + " is not there")
	case p.Status.Phase != corev1.PodRunning:
		return fmt.Errorf("pod %s is %s", key, p.Status.Phase)
	}
	return nil
}

// pod by its key, nil where there is none.
func (s *stage) pod(ctx context.Context, key string) (*corev1.Pod, error) {
	namespace, name, _ := strings.Cut(key, "/")
	var p corev1.Pod
	err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &p)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &p, err
}

func (s *stage) slice(ctx context.Context) error {
	return s.create(ctx, newPod(nsFree, "slice", "nvidia.com/mig-3g.40gb", 1))
}

// sliced: the pod runs, and nothing of the operation is left on the node.
func (s *stage) sliced(ctx context.Context) error {
	if err := s.notRunning(ctx, nsFree+"/slice"); err != nil {
		return err
	}
	return s.clean(ctx)
}

// clean returns our marks on a node that should have been removed.
func (s *stage) clean(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		for _, a := range []string{contract.RecordAnnotation, v1alpha1.DrainAnnotation, v1alpha1.CordonAnnotation} {
			if _, there := n.Annotations[a]; there {
				return fmt.Errorf("node %s still has %s", n.Name, a)
			}
		}
		if n.Spec.Unschedulable {
			return fmt.Errorf("node %s is still cordoned", n.Name)
		}
	}
	return nil
}

func (s *stage) gang(ctx context.Context) error {
	if err := s.create(ctx, podGroup()); err != nil {
		return err
	}
	for i := range 2 {
		p := newPod(nsLender, fmt.Sprintf("gang-%d", i), partition.GPUResource, 2)
		p.Labels = map[string]string{"scheduling.x-k8s.io/pod-group": "gang"}
		p.Spec.SchedulerName = gangScheduler
		if err := s.create(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func podGroup() *unstructured.Unstructured {
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(2)}}}
	group.SetGroupVersionKind(schema.GroupVersionKind{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Kind: "PodGroup"})
	group.SetNamespace(nsLender)
	group.SetName("gang")
	return group
}

// ungang takes the group away, or half of the gang would want its other half back.
func (s *stage) ungang(ctx context.Context) error {
	return client.IgnoreNotFound(s.client.Delete(ctx, podGroup()))
}

// gangScheduler binds all of a gang or none, as Volcano and the plugins do; the
// stage is its fake. It also makes sure which member goes where.
const gangScheduler = "gang-scheduler"

// gangBound plays the gang scheduler until the gang runs.
func (s *stage) gangBound(ctx context.Context) error {
	for i := range 2 {
		node := fmt.Sprintf("whole-%d", i+1)
		if err := ready(node)(s, ctx); err != nil {
			return errors.Join(err, s.gangPending(ctx))
		}
	}
	for i := range 2 {
		key := fmt.Sprintf("%s/gang-%d", nsLender, i)
		p, err := s.pod(ctx, key)
		if err != nil || p == nil {
			return errors.Join(errors.New("pod "+key+" is not there"), err)
		}
		if p.Spec.NodeName != "" {
			continue
		}
		to := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: fmt.Sprintf("whole-%d", i+1)}}
		if err := s.client.SubResource("binding").Create(ctx, p, to); err != nil {
			return fmt.Errorf("binding pod %s: %w", key, err)
		}
	}
	return running(nsLender+"/gang-0", nsLender+"/gang-1")(s, ctx)
}

// gangPending sets the condition of the gang's pods to unschedulable.
func (s *stage) gangPending(ctx context.Context) error {
	for i := range 2 {
		p, err := s.pod(ctx, fmt.Sprintf("%s/gang-%d", nsLender, i))
		if err != nil || p == nil || len(p.Status.Conditions) > 0 {
			return err
		}
		base := client.MergeFrom(p.DeepCopy())
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "insufficient capacity for all of the gang", LastTransitionTime: metav1.Now(),
		}}
		if err := s.client.Status().Patch(ctx, p, base); err != nil {
			return err
		}
	}
	return nil
}

// borrow puts a pod in line before the gang's ends, so that no node is ever empty.
func (s *stage) borrow(ctx context.Context) error {
	if err := s.create(ctx, newPod(nsBorrower, "borrower", partition.GPUResource, 2)); err != nil {
		return err
	}
	return s.end(ctx, nsLender+"/gang-0")
}

func (s *stage) wantBack(ctx context.Context) error {
	return s.create(ctx, newPod(nsLender, "owner", partition.GPUResource, 2))
}

// leaveLittle leaves one pod on each node. One is bound to its node, so the
// other's is emptied.
func (s *stage) leaveLittle(ctx context.Context) error {
	movable, bound := movablePod(), newPod(nsFree, "bound", partition.GPUResource, 1)
	pin(bound, "whole-2")
	for _, p := range []*corev1.Pod{movable, bound} {
		if err := s.create(ctx, p); err != nil {
			return err
		}
	}
	if err := s.end(ctx, nsLender+"/owner"); err != nil {
		return err
	}
	// whole-1 has free capacity now, whole-2 has none.
	if err := await.Until(ctx, func(ctx context.Context) error { return s.notRunning(ctx, nsFree+"/movable") }); err != nil {
		return err
	}
	return s.end(ctx, nsLender+"/gang-1")
}

// moved: the pod runs on the other node, and its own is gone.
func (s *stage) moved(ctx context.Context) error {
	p, err := s.pod(ctx, nsFree+"/movable")
	if err != nil {
		return err
	}
	if p == nil {
		// A scheduler that has not seen the cordon yet would bind it there again.
		again := movablePod()
		pin(again, "whole-2")
		return errors.Join(errors.New("the moved pod is made again"), s.create(ctx, again))
	}
	if p.Status.Phase != corev1.PodRunning || p.Spec.NodeName != "whole-2" {
		return fmt.Errorf("pod movable is %s on %q", p.Status.Phase, p.Spec.NodeName)
	}
	if err := s.notRunning(ctx, nsFree+"/bound"); err != nil {
		return err
	}
	return s.gone(ctx, "whole-1")
}

func (s *stage) leave(ctx context.Context) error {
	return s.end(ctx, nsFree+"/movable", nsFree+"/bound")
}

func (s *stage) empty(ctx context.Context) error {
	if err := s.gone(ctx, "whole-1", "whole-2"); err != nil {
		return err
	}
	return s.clean(ctx)
}

func (s *stage) gone(ctx context.Context, names ...string) error {
	for _, name := range names {
		var n corev1.Node
		err := s.client.Get(ctx, client.ObjectKey{Name: name}, &n)
		if err == nil {
			return errors.New("node " + name + " is still there")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// create an object unless it is there.
func (s *stage) create(ctx context.Context, o client.Object) error {
	refs := o.GetOwnerReferences()
	for i := range refs {
		refs[i].UID = s.owners[o.GetNamespace()]
	}
	o.SetOwnerReferences(refs)
	return client.IgnoreAlreadyExists(s.client.Create(ctx, o))
}

// end deletes pods as their owners would.
func (s *stage) end(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		p, err := s.pod(ctx, key)
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		s.view.own(p.UID)
		if err := s.client.Delete(ctx, p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// newPod asks for n of a resource. A ConfigMap is its controller in name; the
// stage is in deed.
func newPod(namespace, name, resourceName string, n int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: ownerName, Controller: ptr.To(true), // create knows its UID
		}}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{Name: "main", Image: "sandbox.invalid/main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceName(resourceName): *resource.NewQuantity(n, resource.DecimalSI),
				corev1.ResourceCPU:                resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}}}},
		},
	}
}

func movablePod() *corev1.Pod { return newPod(nsFree, "movable", partition.GPUResource, 1) }

func pin(p *corev1.Pod, node string) {
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
}
