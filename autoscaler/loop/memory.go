package loop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// StatusStore keeps the planner's memory in the status of the pools it is
// about. FreeSince and UnknownSince stay in the process, as plan.Memory allows: a
// restart then takes everything free to be free since it is first seen, which
// only makes us slower.
type StatusStore struct {
	client client.Client
	live   client.Reader
	epoch  *act.Epoch // nil: none
}

// NewStatusStore returns a Store. live must read from the API server.
func NewStatusStore(c client.Client, live client.Reader) *StatusStore {
	return &StatusStore{client: c, live: live}
}

// Load implements Store. It begins the epoch that the store writes under.
func (s *StatusStore) Load(ctx context.Context) (plan.Memory, error) {
	var pools v1alpha1.GPUNodePoolList
	if err := s.live.List(ctx, &pools); err != nil {
		return plan.Memory{}, fmt.Errorf("listing GPUNodePools: %w", err)
	}
	if err := s.takeOver(ctx, pools.Items); err != nil {
		return plan.Memory{}, err
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
		if want.Epoch = pool.Status.Memory.Epoch; s.epoch != nil {
			if err := s.epoch.Follows(want.Epoch); err != nil {
				return fmt.Errorf("GPUNodePool %s: %w", p.Name, err)
			}
			want.Epoch = s.epoch.Stamp()
		}
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
		m.LastScaleUp = withStamp(m.LastScaleUp, name, p.LastScaleUp)
		m.LastScaleDown = withStamp(m.LastScaleDown, name, p.LastScaleDown)
		m.LastDrain = withStamp(m.LastDrain, name, p.LastDrain)
		m.LastReplace = withStamp(m.LastReplace, name, p.LastReplace)
		for node, at := range p.LastRepartition {
			m.LastRepartition = withStamp(m.LastRepartition, node, &at)
		}
		for node, at := range p.SickSince {
			m.SickSince = withStamp(m.SickSince, node, &at)
		}
		for card, f := range p.Failures {
			m.Failures = append(m.Failures, plan.Failure{Name: card, Count: int(f.Count), At: f.At.Time})
		}
		for _, g := range p.Grown {
			m.Grown = append(m.Grown, plan.Growth{Pool: name, At: g.At.Time, Nodes: int(g.Nodes)})
		}
		for _, g := range p.Removed {
			m.Removed = append(m.Removed, plan.Growth{Pool: name, At: g.At.Time, Nodes: int(g.Nodes)})
		}
	}
	for _, list := range [][]plan.Stamp{m.LastScaleUp, m.LastScaleDown, m.LastDrain, m.LastReplace, m.LastRepartition, m.SickSince} {
		slices.SortFunc(list, func(a, b plan.Stamp) int { return strings.Compare(a.Name, b.Name) })
	}
	slices.SortFunc(m.Failures, func(a, b plan.Failure) int { return strings.Compare(a.Name, b.Name) })
	for _, list := range [][]plan.Growth{m.Grown, m.Removed} {
		slices.SortStableFunc(list, func(a, b plan.Growth) int {
			return cmp.Or(strings.Compare(a.Pool, b.Pool), a.At.Compare(b.At))
		})
	}
	return m
}

func withStamp(list []plan.Stamp, name string, at *metav1.MicroTime) []plan.Stamp {
	if at == nil {
		return list
	}
	return append(list, plan.Stamp{Name: name, At: at.Time})
}

// poolMemory is the part of m that is about one pool. A node that is gone stays
// with the pool that remembered it, for as long as the planner does.
func poolMemory(m plan.Memory, pool string, poolOf map[string]string, before v1alpha1.PoolMemory) v1alpha1.PoolMemory {
	out := v1alpha1.PoolMemory{
		LastScaleUp: stampOf(m.LastScaleUp, pool), LastScaleDown: stampOf(m.LastScaleDown, pool),
		LastDrain: stampOf(m.LastDrain, pool), LastReplace: stampOf(m.LastReplace, pool),
	}
	ours := func(node string, was bool) bool {
		in, exists := poolOf[node]
		return in == pool || !exists && was
	}
	out.LastRepartition = stampsOf(m.LastRepartition, before.LastRepartition, ours)
	out.SickSince = stampsOf(m.SickSince, before.SickSince, ours)
	for _, f := range m.Failures {
		node, _, _ := strings.Cut(f.Name, "/")
		if _, was := before.Failures[f.Name]; !ours(node, was) {
			continue
		}
		if out.Failures == nil {
			out.Failures = map[string]v1alpha1.CardFailures{}
		}
		out.Failures[f.Name] = v1alpha1.CardFailures{Count: int32(f.Count), At: micro(f.At)}
	}
	for _, g := range m.Grown {
		if g.Pool == pool {
			out.Grown = append(out.Grown, v1alpha1.Growth{At: micro(g.At), Nodes: int32(g.Nodes)})
		}
	}
	for _, g := range m.Removed {
		if g.Pool == pool {
			out.Removed = append(out.Removed, v1alpha1.Growth{At: micro(g.At), Nodes: int32(g.Nodes)})
		}
	}
	return out
}

// stampsOf are the stamps of the nodes that are ours, nil for none.
func stampsOf(list []plan.Stamp, before map[string]metav1.MicroTime, ours func(node string, was bool) bool) map[string]metav1.MicroTime {
	var out map[string]metav1.MicroTime
	for _, s := range list {
		if _, was := before[s.Name]; !ours(s.Name, was) {
			continue
		}
		if out == nil {
			out = map[string]metav1.MicroTime{}
		}
		out[s.Name] = micro(s.At)
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
