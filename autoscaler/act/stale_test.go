package act

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

// stale writes to the cluster and reads its state from the start of the test, like an
// informer cache that lags behind our own writes.
type stale struct {
	client.Client
	before client.Reader
}

func (s stale) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return s.before.Get(ctx, key, o, opts...)
}

func (s stale) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return s.before.List(ctx, l, opts...)
}

// newStaleWorld is newWorld with an Actor whose cache never catches up.
func newStaleWorld(t *testing.T, more ...client.Object) *world {
	t.Helper()
	objects := []client.Object{testPool(), testNode()}
	for _, o := range more {
		objects = append(objects, o.DeepCopyObject().(client.Object))
	}
	before := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).Build()
	return newWorld(t, func(o *Options) {
		cached := stale{o.Client, before}
		m := partition.NewManager(cached, o.Live, partition.DefaultConfigMap)
		o.Client, o.Partition = cached, m
		o.Pools = pools.Providers{GRPC: nodegroups.New(cached, o.Live, m)}
	}, more...)
}

// TestStaleCache: repeating a plan while the cache lags behind its writes changes nothing.
func TestStaleCache(t *testing.T) {
	t.Run("scale up", func(t *testing.T) {
		w := newStaleWorld(t)
		up := plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2}
		w.want(Done, up)
		w.want(Done, up)
		if got := w.nodes(); !slices.Equal(got, []string{"p-1", "p-2"}) {
			t.Errorf("nodes %v", got)
		}
	})
	t.Run("remove", func(t *testing.T) {
		second := testNode()
		second.Name = "p-2"
		w := newStaleWorld(t, second)
		remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}
		w.want(Waiting, remove)
		w.settled()
		w.want(Done, remove)
		w.want(Refused, remove)
		if got := w.nodes(); !slices.Equal(got, []string{"p-2"}) {
			t.Errorf("nodes %v", got)
		}
	})
	t.Run("scale up after a removal", func(t *testing.T) {
		second := testNode()
		second.Name = "p-2"
		w := newStaleWorld(t, second)
		w.snap.Pools = []plan.Pool{{Name: "p", Size: 2, Target: 2, Max: 3}}
		remove := plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"}
		w.want(Waiting, remove)
		w.settled()
		w.want(Done, remove)
		w.want(Refused, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 2, To: 3}) // it would add two
		w.snap.Pools[0].Size = 1
		w.want(Done, plan.Action{Verb: plan.ScaleUp, Pool: "p", From: 1, To: 2})
		if got := w.nodes(); len(got) != 2 {
			t.Errorf("nodes %v", got)
		}
	})
	t.Run("recreated under its name", func(t *testing.T) {
		w := newStaleWorld(t)
		w.must(w.client.Delete(t.Context(), testNode()))
		again := testNode()
		again.CreationTimestamp.Time = start.AddDate(0, 0, 1)
		w.must(w.client.Create(t.Context(), again))
		w.want(Refused, plan.Action{Verb: plan.RemoveNode, Pool: "p", Node: "p-1"})
		w.want(Refused, w.repartition())
	})
	t.Run("repartition", func(t *testing.T) {
		w := newStaleWorld(t)
		w.want(Done, w.repartition())
		record := w.node().Annotations[partition.RecordAnnotation]
		writes := w.writes
		other := w.repartition()
		other.Operation = "another"
		w.want(Refused, other)
		if w.writes != writes || w.node().Annotations[partition.RecordAnnotation] != record {
			t.Errorf("%d more writes, record %s", w.writes-writes, w.node().Annotations[partition.RecordAnnotation])
		}
		var configs corev1.ConfigMapList
		if err := w.client.List(t.Context(), &configs); err != nil || len(configs.Items) != 1 {
			t.Errorf("%d ConfigMaps, %v", len(configs.Items), err)
		}
	})
}
