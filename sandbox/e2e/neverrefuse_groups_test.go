package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

var lws = neighbours.Source{
	Neighbour: build.LeaderWorkerSet,
	Files:     []string{"config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"},
}

const (
	lwsKind = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
	lwsSize = 2 // pods of a group

	lwsName     = "leaderworkerset.sigs.k8s.io/name"
	lwsGroup    = "leaderworkerset.sigs.k8s.io/group-index"
	lwsWorker   = "leaderworkerset.sigs.k8s.io/worker-index"
	lwsRevision = "leaderworkerset.sigs.k8s.io/template-revision-hash"
)

// groups plays the controller and the webhook of LeaderWorkerSet over its real CRD: a
// StatefulSet of leaders that the set controls, and for each leader, named like it, one of
// workers that the leader's pod controls, so that a group's workers go with its leader. A
// new template reaches the groups from the last to the first, each once the one before is
// available. Checked against pkg/controllers/{leaderworkerset,pod}_controller.go and
// pkg/webhooks/pod_webhook.go of v0.7.0 and 060ab4d (after v0.9.0), 2026-11. Left out:
// restart policies, surge, hashes in place of the revision's name.
type groups struct {
	client.Client
	set types.NamespacedName
}

func (b *faultEnv) deployGroups(t *testing.T, namespace string) {
	t.Helper()
	b.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	set := shape{name: namespace, kind: lwsKind}.workload()
	set.Object["spec"] = map[string]any{"replicas": int64(replicas), "leaderWorkerTemplate": map[string]any{
		"size": int64(lwsSize), "workerTemplate": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "sandbox.invalid/worker"}}},
		},
	}}
	b.create(t, set)
	g := groups{b.api, client.ObjectKeyFromObject(set)}
	var playing sync.WaitGroup
	t.Cleanup(playing.Wait) // after its context has ended
	playing.Go(func() {
		wait.UntilWithContext(t.Context(), func(ctx context.Context) {
			if err := g.reconcile(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
				t.Logf("LeaderWorkerSet %s: %v", g.set, err)
			}
		}, 500*time.Millisecond)
	})
}

func (g groups) reconcile(ctx context.Context) error {
	set := shape{name: g.set.Namespace, kind: lwsKind}.workload()
	if err := g.Get(ctx, g.set, set); err != nil {
		return err
	}
	n, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
	rolled, _, _ := unstructured.NestedString(set.Object, "spec", "leaderWorkerTemplate", "workerTemplate", "metadata", "annotations", "rolled")
	revision := cmp.Or(rolled, "in")
	leaders := g.statefulSet(g.set.Name, set, map[string]string{lwsName: g.set.Name, lwsWorker: "0"}, revision, int32(n))
	if err := g.rollOut(ctx, leaders, revision); err != nil {
		return err
	}
	var pods corev1.PodList
	if err := g.List(ctx, &pods, client.InNamespace(g.set.Namespace), client.MatchingLabels{lwsName: g.set.Name}); err != nil {
		return err
	}
	var errs []error
	for i := range pods.Items {
		errs = append(errs, g.pod(ctx, &pods.Items[i]))
	}
	status := fmt.Sprintf(`{"status":{"replicas":%d,"hpaPodSelector":"%s=%s,%s=0"}}`, leaders.Status.Replicas, lwsName, g.set.Name, lwsWorker)
	return errors.Join(append(errs, g.Status().Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(status))))...)
}

// statefulSet is one of leaders, or of a leader's workers.
func (g groups) statefulSet(name string, owner client.Object, labels map[string]string, revision string, n int32) *appsv1.StatefulSet {
	of := owner.GetObjectKind().GroupVersionKind()
	template := worker(map[string]string{lwsRevision: revision})
	for label, value := range labels {
		template.Labels[label] = value
	}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.set.Namespace, Name: name, Labels: template.Labels, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(owner, of),
		}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &n, ServiceName: g.set.Name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template, MinReadySeconds: ready,
		},
	}
}

// rollOut makes the leaders' StatefulSet, or brings the next group to the revision. What is
// there is left in leaders.
func (g groups) rollOut(ctx context.Context, leaders *appsv1.StatefulSet, revision string) error {
	want := leaders.DeepCopy()
	err := g.Get(ctx, g.set, leaders)
	if apierrors.IsNotFound(err) {
		return g.Create(ctx, leaders)
	}
	if err != nil {
		return err
	}
	partition := int32(0)
	if update := leaders.Spec.UpdateStrategy.RollingUpdate; update != nil && update.Partition != nil {
		partition = *update.Partition
	}
	before := partition
	switch changed := leaders.Spec.Template.Labels[lwsRevision] != revision; {
	case changed:
		partition = *want.Spec.Replicas
	case partition > 0:
		done, err := g.available(ctx, int(partition), int(*want.Spec.Replicas), revision)
		if err != nil || !done {
			return err
		}
		partition--
	}
	if before == partition && *leaders.Spec.Replicas == *want.Spec.Replicas {
		return nil
	}
	leaders.Spec.Template, leaders.Spec.Replicas = want.Spec.Template, want.Spec.Replicas
	leaders.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}
	return g.Update(ctx, leaders)
}

// available reports whether the groups from one on have the revision, and all of their pods.
func (g groups) available(ctx context.Context, from, to int, revision string) (bool, error) {
	for i := from; i < to; i++ {
		var workers appsv1.StatefulSet
		key := types.NamespacedName{Namespace: g.set.Namespace, Name: g.set.Name + "-" + strconv.Itoa(i)}
		err := g.Get(ctx, key, &workers)
		if err != nil || workers.Labels[lwsRevision] != revision || workers.Status.AvailableReplicas < lwsSize-1 {
			return false, client.IgnoreNotFound(err)
		}
	}
	return true, nil
}

// pod gives a pod the label that the webhook does, and a leader its workers.
func (g groups) pod(ctx context.Context, p *corev1.Pod) error {
	if p.DeletionTimestamp != nil {
		return nil
	}
	label, leader := lwsWorker, p.Labels[lwsWorker] == "0"
	if leader {
		label = lwsGroup
	}
	if p.Labels[label] == "" {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, label, p.Name[strings.LastIndexByte(p.Name, '-')+1:])
		if err := g.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			return err
		}
	}
	if !leader {
		return nil
	}
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	workers := g.statefulSet(p.Name, p, map[string]string{lwsName: g.set.Name, lwsGroup: p.Labels[lwsGroup]}, p.Labels[lwsRevision], lwsSize-1)
	workers.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
	return client.IgnoreAlreadyExists(g.Create(ctx, workers))
}
