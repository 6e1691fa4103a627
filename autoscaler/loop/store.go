package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// StatusStore persists the planner's state in the status of the pools it concerns.
// FreeSince, UnknownSince, ShortSince and LastRegret stay in the process, as plan.State
// allows: after a restart free GPUs count as free since they are first seen, which only
// delays scale-down.
type StatusStore struct {
	client client.Client
	live   client.Reader
	epoch  *act.Epoch // nil: none
}

// NewStatusStore returns a Store that writes under an epoch; nil is for a dry run. After its first Load no replica of
// an earlier epoch can save its state, so none can act. live must read from the API server, not from a cache.
func NewStatusStore(c client.Client, live client.Reader, e *act.Epoch) *StatusStore {
	return &StatusStore{client: c, live: live, epoch: e}
}

// Load implements Store. It begins the store's epoch and writes it to every pool. What it reads afterwards includes all
// writes of earlier leaders, and their later writes fail. Where the API server refuses a pool's status, no leader can
// save the pool's state, so none acts on it.
func (s *StatusStore) Load(ctx context.Context) (plan.State, error) {
	pools, err := s.pools(ctx)
	if err != nil || s.epoch == nil {
		return stateOf(pools), err
	}
	latest := int64(0)
	for i := range pools {
		if last := pools[i].Status.PlannerState.Epoch; last != nil {
			latest = max(latest, last.Term)
		}
	}
	if err := s.epoch.Begin(ctx, latest); err != nil {
		return plan.State{}, fmt.Errorf("beginning the epoch: %w", err)
	}
	for i := range pools {
		err := retry.RetryOnConflict(takeOverTries, func() error {
			return s.write(ctx, pools[i].Name, func(had v1alpha1.PlannerState) v1alpha1.PlannerState { return had })
		})
		if err != nil && !isRefused(err) {
			return plan.State{}, fmt.Errorf("taking over: %w", err)
		}
	}
	pools, err = s.pools(ctx)
	return stateOf(pools), err
}

// takeOverTries bounds the attempts to write one pool's status after conflicts.
var takeOverTries = wait.Backoff{Steps: 8}

func (s *StatusStore) pools(ctx context.Context) ([]v1alpha1.GPUNodePool, error) {
	var list v1alpha1.GPUNodePoolList
	switch err := s.live.List(ctx, &list); {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("listing GPUNodePools: %w: the CRD gpunodepools.gpuscale.io is not installed: set crds.install of the chart, or apply deploy/chart/gpuscale/files/crds", err)
	case err != nil:
		return nil, fmt.Errorf("listing GPUNodePools: %w", err)
	}
	return list.Items, nil
}

// Save implements Store.
func (s *StatusStore) Save(ctx context.Context, snap plan.Snapshot, m plan.State) (map[string]error, error) {
	poolOf, unsaved := map[string]string{}, map[string]error{}
	for _, n := range snap.Nodes {
		poolOf[n.Name] = n.Pool
	}
	for _, p := range snap.Pools {
		if !changed(snap.State, m, p.Name, poolOf) {
			continue
		}
		err := s.write(ctx, p.Name, func(had v1alpha1.PlannerState) v1alpha1.PlannerState { return poolState(m, p.Name, poolOf, had) })
		if isRefused(err) {
			unsaved[p.Name] = err
		} else if err != nil {
			return nil, err
		}
	}
	return unsaved, nil
}

// isRefused reports an error of one pool alone: it is gone, its stored object does not pass the CRD's present
// rules, or an admission webhook refuses it: Gatekeeper with 403, Kyverno with 400.
func isRefused(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// write changes a pool's state under compare-and-swap, in the name of the epoch. No change is no write.
func (s *StatusStore) write(ctx context.Context, name string, change func(v1alpha1.PlannerState) v1alpha1.PlannerState) error {
	var pool v1alpha1.GPUNodePool
	if err := s.live.Get(ctx, client.ObjectKey{Name: name}, &pool); err != nil {
		return fmt.Errorf("getting GPUNodePool %s: %w", name, err)
	}
	want := change(pool.Status.PlannerState)
	if want.Epoch = pool.Status.PlannerState.Epoch; s.epoch != nil {
		if err := s.epoch.Follows(want.Epoch); err != nil {
			return fmt.Errorf("GPUNodePool %s: %w", name, err)
		}
		want.Epoch = s.epoch.Stamp()
	}
	if equality.Semantic.DeepEqual(pool.Status.PlannerState, want) {
		return nil
	}
	base := client.MergeFromWithOptions(pool.DeepCopy(), client.MergeFromWithOptimisticLock{})
	pool.Status.PlannerState = want
	if err := s.client.Status().Patch(ctx, &pool, base); err != nil {
		return fmt.Errorf("writing the status of GPUNodePool %s: %w", name, err)
	}
	return nil
}

// changed reports whether the state of a pool differs.
func changed(before, after plan.State, pool string, poolOf map[string]string) bool {
	none := v1alpha1.PlannerState{}
	return !equality.Semantic.DeepEqual(poolState(before, pool, poolOf, none), poolState(after, pool, poolOf, none))
}

// stateOf collects the state from the pools' statuses.
func stateOf(pools []v1alpha1.GPUNodePool) plan.State {
	m := plan.State{LastScaleUp: plan.Times{}, LastScaleDown: plan.Times{}, LastDrain: plan.Times{}, LastReplace: plan.Times{}, LastRepartition: plan.Times{},
		SickSince: plan.Times{}, Grown: map[string][]plan.Growth{}, Removed: map[string][]plan.Growth{}, Failures: map[string]plan.Failure{}}
	growth := func(to map[string][]plan.Growth, pool string, list []v1alpha1.Growth) {
		for _, g := range list {
			to[pool] = append(to[pool], plan.Growth{At: g.Time.Time, Nodes: int(g.Nodes)})
		}
	}
	for i := range pools {
		name, p := pools[i].Name, pools[i].Status.PlannerState
		for _, f := range []struct {
			to plan.Times
			at *metav1.MicroTime
		}{{m.LastScaleUp, p.LastScaleUpTime}, {m.LastScaleDown, p.LastScaleDownTime}, {m.LastDrain, p.LastDrainTime}, {m.LastReplace, p.LastReplaceTime}} {
			if f.at != nil {
				f.to[name] = f.at.Time
			}
		}
		for node, t := range p.LastRepartitionTime {
			m.LastRepartition[node] = t.Time
		}
		for node, t := range p.SickSinceTime {
			m.SickSince[node] = t.Time
		}
		for device, f := range p.Failures {
			m.Failures[device] = plan.Failure{Count: int(f.Count), At: f.LastTime.Time}
		}
		growth(m.Grown, name, p.Grown)
		growth(m.Removed, name, p.Removed)
	}
	return m
}

// growthOf returns the growth of one pool. Of too many entries the oldest become one, with the latest of their times:
// the limits then count every node, and some for longer.
func growthOf(list []plan.Growth) (out []v1alpha1.Growth) {
	for _, g := range list {
		out = append(out, v1alpha1.Growth{Time: micro(g.At), Nodes: int32(g.Nodes)})
	}
	if more := len(out) - v1alpha1.MaxPlannerStates; more > 0 {
		for _, g := range out[:more] {
			out[more].Nodes += g.Nodes
		}
		out = out[more:]
	}
	return out
}

// poolState is the part of m that concerns one pool. A node that is gone stays with
// the pool in whose status it was, as long as the planner keeps it.
func poolState(m plan.State, pool string, poolOf map[string]string, before v1alpha1.PlannerState) v1alpha1.PlannerState {
	timeOf := func(times plan.Times) *metav1.MicroTime {
		if at, ok := times[pool]; ok {
			return ptr.To(micro(at))
		}
		return nil
	}
	ours := func(node string, was bool) bool {
		in, exists := poolOf[node]
		return in == pool || !exists && was
	}
	times := func(times plan.Times, before map[string]metav1.MicroTime) map[string]metav1.MicroTime {
		return newest(times, func(at time.Time) time.Time { return at }, micro, func(node string) bool {
			_, was := before[node]
			return ours(node, was)
		})
	}
	return v1alpha1.PlannerState{
		LastScaleUpTime: timeOf(m.LastScaleUp), LastScaleDownTime: timeOf(m.LastScaleDown),
		LastDrainTime: timeOf(m.LastDrain), LastReplaceTime: timeOf(m.LastReplace),
		LastRepartitionTime: times(m.LastRepartition, before.LastRepartitionTime), SickSinceTime: times(m.SickSince, before.SickSinceTime),
		Failures: newest(m.Failures, func(f plan.Failure) time.Time { return f.At }, func(f plan.Failure) v1alpha1.GPUFailures {
			return v1alpha1.GPUFailures{Count: int32(f.Count), LastTime: micro(f.At)}
		}, func(device string) bool {
			node, _, _ := strings.Cut(device, "/")
			_, was := before.Failures[device]
			return ours(node, was)
		}),
		Grown: growthOf(m.Grown[pool]), Removed: growthOf(m.Removed[pool]),
	}
}

// newest returns a pool's items, the latest ones if there are too many; nil for none. For a node whose item is left
// out, the planner's limits begin again. The bound keeps the status from
// growing with the pool.
func newest[V, W any](all map[string]V, at func(V) time.Time, as func(V) W, ours func(name string) bool) map[string]W {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return !ours(name) })
	slices.SortStableFunc(names, func(a, b string) int { return at(all[b]).Compare(at(all[a])) })
	var out map[string]W
	for _, name := range names[:min(len(names), v1alpha1.MaxPlannerStates)] {
		if out == nil {
			out = map[string]W{}
		}
		out[name] = as(all[name])
	}
	return out
}

// micro truncates to the API's precision, so that a value reads back equal.
func micro(t time.Time) metav1.MicroTime {
	return metav1.NewMicroTime(t.Truncate(time.Microsecond))
}
