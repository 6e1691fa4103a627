package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// Options of an Actor. All but ConfigDelay, Nominate, DryRun and Log are required.
type Options struct {
	Client client.Client
	// Live reads from the API server, never from a cache.
	Live      client.Reader
	Pools     pools.Provider
	Partition *partition.Manager
	// Policy is the planner's: plans are within its limits.
	Policy plan.Policy
	// ConfigDelay is the time between publishing a new MIG config and selecting
	// it: kubelet syncs ConfigMaps to mig-manager's pod with a delay.
	ConfigDelay time.Duration
	// Nominate makes the scheduler reserve reclaimed or upcoming capacity for the pods that it is
	// meant for.
	Nominate bool
	// DryRun makes no call that writes.
	DryRun bool
	Log    *slog.Logger
}

// Actor carries out plans. It is used from one goroutine.
type Actor struct {
	o         *Options
	promises  promises
	tidied    time.Time            // when configs were last collected
	withdrawn map[string]time.Time // by pool, the last attempt
	unended   map[string]bool      // the actions that waited, or failed, in the last reconcile
	repeated  kube.Repeated        // errors of resume
}

// New returns an Actor.
func New(o Options) *Actor {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Actor{o: &o, promises: promises{&o, map[string]promise{}, map[metav1.StatusReason]bool{}}, withdrawn: map[string]time.Time{}, repeated: kube.Repeated{}}
}

// Outcome of an action, one of the constants below.
type Outcome string

// Outcomes.
const (
	Done    Outcome = "done"
	Waiting Outcome = "waiting" // started; later reconciles continue it
	Refused Outcome = "refused" // the snapshot that the plan is based on is out of date
	Failed  Outcome = "failed"
	DryRun  Outcome = "dry-run"
)

// Result of one action.
type Result struct {
	Action  plan.Action
	Outcome Outcome
	Err     error // the cause, for Waiting, Refused and Failed
	// Continued is set for an action that waits or fails, as it did in the reconcile before.
	Continued bool
}

// errRefused and errWaiting mark errors that are not failures.
var (
	errRefused = errors.New("refused")
	errWaiting = errors.New("waiting")
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
}

// maxActing bounds the time that the actions of one reconcile take, so that providers that hang
// delay the next reconcile for a bounded time. The next one plans the rest again; the
// providers that hung are in backoff by then.
const maxActing = 25 * time.Second

// errTooLong is the cause of a context that has ended after maxActing.
var errTooLong = errors.New("the actions of this reconcile have taken too long")

// Apply continues the operations of s, and carries out the actions of p, the plan for it, in order. After an
// action that does not succeed it continues with the next one.
func (a *Actor) Apply(ctx context.Context, s plan.Snapshot, p plan.Plan) []Result {
	if !a.o.DryRun {
		if err := a.resume(ctx, s); a.repeated.New(err, s.Now) {
			a.o.Log.Error("resuming operations failed", "err", err)
		}
	}
	before := a.unended
	a.unended = map[string]bool{}
	if len(p.Actions) == 0 && len(p.Nominations) == 0 && len(a.promises.byPod) == 0 {
		return nil // most reconciles: s need not be indexed
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxActing, errTooLong)
	defer cancel()
	r := newReconcile(s, a.o.Policy)
	a.promises.keep(ctx, r, false)
	results := make([]Result, 0, len(p.Actions))
	for _, action := range p.Actions {
		err := a.apply(ctx, r, action)
		result := Result{Action: action, Outcome: outcome(err, a.o.DryRun), Err: err}
		if result.Outcome == Waiting || result.Outcome == Failed {
			// Without the detail and the error, which have changing durations.
			key := fmt.Sprintf("%s %s %s/%s %s: %s", result.Outcome, action.Verb, action.Pool, action.Node, action.Pod, action.Reason)
			a.unended[key], result.Continued = true, before[key]
		}
		results = append(results, result)
	}
	if slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.Reclaim }) {
		// Each eviction makes the scheduler retry pending pods, which clears nominations.
		a.promises.keep(ctx, r, false)
	}
	a.promises.expect(ctx, r, p.Nominations)
	a.promises.keep(ctx, r, true) // last: they are many, and the nodes take longer
	return results
}

func outcome(err error, dryRun bool) Outcome {
	switch {
	case dryRun:
		return DryRun
	case err == nil:
		return Done
	case errors.Is(err, errWaiting), errors.Is(err, pools.ErrBusy):
		return Waiting
	case errors.Is(err, errRefused), errors.Is(err, pools.ErrUnnamed), errors.Is(err, pools.ErrStale), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return Refused
	default:
		return Failed
	}
}

func (a *Actor) apply(ctx context.Context, r *reconcile, action plan.Action) error {
	if a.o.DryRun {
		return nil
	}
	if ctx.Err() != nil {
		return refuse("the reconcile has ended: %v", context.Cause(ctx))
	}
	pool, err := a.pool(ctx, action.Pool)
	switch {
	case undoes(action.Verb) && apierrors.IsNotFound(err): // the pool is deleted, its node still has our annotations
	case err != nil:
		return err
	case pool != nil && pool.Spec.Freeze && !undoes(action.Verb):
		return refuse("pool %s is frozen", pool.Name)
	case (action.Verb == plan.ScaleUp || action.Verb == plan.Withdraw) && (pool == nil || pool.Spec.Provider.Fixed != nil):
		return refuse("no provider sets the size of the action's pool")
	}
	switch action.Verb {
	case plan.ScaleUp:
		return a.scaleUp(ctx, r, pool, action)
	case plan.Repartition:
		return a.repartition(ctx, r, action)
	case plan.Rollback:
		return a.rollback(ctx, r, action)
	case plan.Uncordon:
		return a.uncordon(ctx, action)
	case plan.Drain:
		return a.drain(ctx, r, pool, action)
	case plan.Reclaim:
		return a.reclaim(ctx, r, action)
	case plan.SoftTaint, plan.RemoveSoftTaint:
		return a.softTaint(ctx, r, action)
	case plan.Withdraw:
		return a.withdraw(ctx, r, pool, action)
	case plan.RemoveNode, plan.Replace:
		return a.takeOut(ctx, r, pool, action)
	default:
		return fmt.Errorf("unknown verb %q", action.Verb)
	}
}

// undoes reports whether a verb ends an operation under way. A freeze does not
// stop such verbs: it prevents new operations and leaves none half done.
func undoes(v plan.Verb) bool { return v == plan.Uncordon || v == plan.Rollback }

// scaleUp requests a size from the provider. Sizes are absolute, so a snapshot from
// before our last scale-up requests the present size. One from before a removal would
// request too many nodes: the provider refuses, and the next reconcile observes the present size.
func (a *Actor) scaleUp(ctx context.Context, r *reconcile, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	if action.To > int(pool.Spec.Max) {
		return refuse("pool %s: %d nodes are more than max %d", pool.Name, action.To, pool.Spec.Max)
	}
	return a.o.Pools.SetSize(ctx, pool, r.pools[pool.Name].Target, action.To)
}

// softTaint adds or removes v1alpha1.EmptyTaint. Other taints stay as they are.
func (a *Actor) softTaint(ctx context.Context, r *reconcile, action plan.Action) error {
	return a.onSeen(ctx, r, action.Node, func(node *corev1.Node) error {
		add := action.Verb == plan.SoftTaint
		if add == v1alpha1.SoftTainted(node) {
			return nil
		}
		return partition.PatchNode(ctx, a.o.Client, node, "patching", func(n *corev1.Node) {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.EmptyTaint })
			if add {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.EmptyTaint, Effect: corev1.TaintEffectPreferNoSchedule})
			}
		})
	})
}

// withdrawEvery is the least time between two attempts to withdraw one pool's request: some
// providers can never do it.
const withdrawEvery = time.Minute

// withdraw takes back the part of a pool's target that its provider has not delivered.
func (a *Actor) withdraw(ctx context.Context, r *reconcile, pool *v1alpha1.GPUNodePool, action plan.Action) error {
	if last, ok := a.withdrawn[pool.Name]; ok && r.now.Sub(last) < withdrawEvery {
		return refuse("the request of pool %s was withdrawn %s ago", pool.Name, r.now.Sub(last))
	}
	a.withdrawn[pool.Name] = r.now
	return a.o.Pools.Withdraw(ctx, pool, action.From)
}
