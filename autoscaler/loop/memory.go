package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// StatusStore keeps the planner's memory in the status of the pools it is
// about. FreeSince stays in the process: a restart then takes everything free to
// be free since it is first seen, which only makes us slower.
type StatusStore struct {
	client client.Client
	live   client.Reader
}

// NewStatusStore returns a Store. live must read from the API server.
func NewStatusStore(c client.Client, live client.Reader) *StatusStore {
	return &StatusStore{client: c, live: live}
}

// Load implements Store.
func (s *StatusStore) Load(ctx context.Context) (plan.Memory, error) {
	var pools v1alpha1.GPUNodePoolList
	if err := s.live.List(ctx, &pools); err != nil {
		return plan.Memory{}, fmt.Errorf("listing GPUNodePools: %w", err)
	}
	return memoryOf(pools.Items), nil
}

// Save implements Store.
func (s *StatusStore) Save(ctx context.Context, snap plan.Snapshot, m plan.Memory) error {
	poolOf := map[string]string{}
	for _, n := range snap.Nodes {
		poolOf[n.Name] = n.Pool
	}
	for _, p := range snap.Pools {
		if !changed(snap.Memory, m, p.Name, poolOf) {
			continue
		}
		var pool v1alpha1.GPUNodePool
		if err := s.live.Get(ctx, client.ObjectKey{Name: p.Name}, &pool); err != nil {
			return fmt.Errorf("getting GPUNodePool %s: %w", p.Name, err)
		}
		want := poolMemory(m, p.Name, poolOf, pool.Status.Memory)
		if equality.Semantic.DeepEqual(pool.Status.Memory, want) {
			continue
		}
		base := client.MergeFromWithOptions(pool.DeepCopy(), client.MergeFromWithOptimisticLock{})
		pool.Status.Memory = want
		if err := s.client.Status().Patch(ctx, &pool, base); err != nil {
			return fmt.Errorf("writing the status of GPUNodePool %s: %w", p.Name, err)
		}
	}
	return nil
}

// changed reports whether what is remembered about a pool is not what it was.
func changed(before, after plan.Memory, pool string, poolOf map[string]string) bool {
	none := v1alpha1.PoolMemory{}
	return !equality.Semantic.DeepEqual(poolMemory(before, pool, poolOf, none), poolMemory(after, pool, poolOf, none))
}

// memoryOf collects what the pools' statuses remember.
func memoryOf(pools []v1alpha1.GPUNodePool) plan.Memory {
	var m plan.Memory
	for i := range pools {
		name, p := pools[i].Name, pools[i].Status.Memory
		if p.LastScaleUp != nil {
			m.LastScaleUp = append(m.LastScaleUp, plan.Stamp{Name: name, At: p.LastScaleUp.Time})
		}
		if p.LastScaleDown != nil {
			m.LastScaleDown = append(m.LastScaleDown, plan.Stamp{Name: name, At: p.LastScaleDown.Time})
		}
		for node, at := range p.LastRepartition {
			m.LastRepartition = append(m.LastRepartition, plan.Stamp{Name: node, At: at.Time})
		}
	}
	for _, list := range [][]plan.Stamp{m.LastScaleUp, m.LastScaleDown, m.LastRepartition} {
		slices.SortFunc(list, func(a, b plan.Stamp) int { return strings.Compare(a.Name, b.Name) })
	}
	return m
}

// poolMemory is the part of m that is about one pool. A node that is gone stays
// with the pool that remembered it, for as long as the planner does.
func poolMemory(m plan.Memory, pool string, poolOf map[string]string, before v1alpha1.PoolMemory) v1alpha1.PoolMemory {
	out := v1alpha1.PoolMemory{LastScaleUp: stampOf(m.LastScaleUp, pool), LastScaleDown: stampOf(m.LastScaleDown, pool)}
	nodes := map[string]metav1.MicroTime{}
	for _, s := range m.LastRepartition {
		in, exists := poolOf[s.Name]
		_, was := before.LastRepartition[s.Name]
		if in == pool || !exists && was {
			nodes[s.Name] = micro(s.At)
		}
	}
	if len(nodes) > 0 {
		out.LastRepartition = maps.Clone(nodes)
	}
	return out
}

func stampOf(list []plan.Stamp, name string) *metav1.MicroTime {
	for _, s := range list {
		if s.Name == name {
			at := micro(s.At)
			return &at
		}
	}
	return nil
}

// micro cuts to what the API keeps, so that what is read equals what was written.
func micro(t time.Time) metav1.MicroTime {
	return metav1.NewMicroTime(t.Truncate(time.Microsecond))
}
