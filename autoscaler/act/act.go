package act

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// Options of an Actor. All but ConfigDelay, Nominate, DryRun and Log are required.
type Options struct {
	Client client.Client
	// Live reads from the API server, never from a cache.
	Live      client.Reader
	Pools     pools.Provider
	Partition *partition.Manager
	// Policy's bounds and its off switch are checked again here.
	Policy plan.Policy
	// ConfigDelay is how long a config that mig-manager has never seen is given
	// to reach its pod before it is selected: kubelet syncs ConfigMaps late.
	ConfigDelay time.Duration
	// Nominate has the scheduler keep what is reclaimed for the pod that it is
	// reclaimed for.
	Nominate bool
	// DryRun does nothing at all.
	DryRun bool
	Log    *slog.Logger
}

// Actor carries out plans. It is used from one goroutine.
type Actor struct {
	o      Options
	tidied time.Time // when configs were last collected
	// promises by pod; a new leader begins without any.
	promises map[string]promise
}

// New returns an Actor.
func New(o Options) *Actor {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Actor{o: o, promises: map[string]promise{}}
}

// Outcome of an action. The set is closed.
type Outcome string

// Outcomes.
const (
	Done    Outcome = "done"
	Waiting Outcome = "waiting" // a step is done, the rest follows when the world has answered
	Refused Outcome = "refused" // what the plan was made on is no longer true
	Failed  Outcome = "failed"
	DryRun  Outcome = "dry-run"
)

// Result of one action.
type Result struct {
	Action  plan.Action
	Outcome Outcome
	Err     error // why, for Waiting, Refused and Failed
}

// errRefused and errWaiting mark errors that are no failures.
var (
	errRefused = errors.New("refused")
	errWaiting = errors.New("waiting")
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
}

// Apply carries out the actions of p, which was made on s, in order. An action
// that does not succeed does not keep the others from being tried.
func (a *Actor) Apply(ctx context.Context, s plan.Snapshot, p plan.Plan) []Result {
	if len(p.Actions) == 0 && len(a.promises) == 0 {
		return nil // as in most rounds: nothing is looked up
	}
	r := newRound(s, a.o.Policy)
	a.keepPromises(ctx, r)
	results := make([]Result, 0, len(p.Actions))
	for _, action := range p.Actions {
		err := a.apply(ctx, r, action)
		results = append(results, Result{Action: action, Outcome: outcome(err, a.o.DryRun), Err: err})
	}
	if r.evictions > 0 { // those who left first have the scheduler try everybody
		a.keepPromises(ctx, r)
	}
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
	case errors.Is(err, errRefused), errors.Is(err, pools.ErrUnnamed), errors.Is(err, pools.ErrFixed), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return Refused
	default:
		return Failed
	}
}

func (a *Actor) apply(ctx context.Context, r *round, action plan.Action) error {
	if a.o.DryRun {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return refuse("no longer leading: %v", err)
	}
	if err := r.admit(action); err != nil {
		return err
	}
	pool, err := a.pool(ctx, action.Pool)
	switch {
	case undoes(action.Verb) && apierrors.IsNotFound(err): // the node is left, and what stands on it is ours
	case err != nil:
		return err
	case pool != nil && pool.Spec.Freeze && !undoes(action.Verb):
		return refuse("pool %s is frozen", pool.Name)
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
	case plan.Replace:
		return a.replace(ctx, r, pool, action)
	case plan.RemoveNode:
		return a.removeNode(ctx, r, pool, action)
	default:
		return fmt.Errorf("verb %q: not known here", action.Verb)
	}
}

// pool reads the action's pool as it is now; nil for an action on a node that is
// of none.
func (a *Actor) pool(ctx context.Context, name string) (*v1alpha1.GPUNodePool, error) {
	if name == "" {
		return nil, nil
	}
	var pool v1alpha1.GPUNodePool
	if err := a.o.Live.Get(ctx, client.ObjectKey{Name: name}, &pool); err != nil {
		return nil, fmt.Errorf("getting GPUNodePool %s: %w", name, err)
	}
	return &pool, nil
}

// undoes reports a verb that ends what was begun. A freeze does not hold it up: it
// lets nothing begin, and leaves nothing half done.
func undoes(v plan.Verb) bool { return v == plan.Uncordon || v == plan.Rollback }

// tries at a node that others write to as well: its kubelet, and the controller
// that turns our cordon into a taint.
const tries = 4

// onNode reads a node and does something about it, again where the node was
// changed in between.
func (a *Actor) onNode(ctx context.Context, name string, do func(*corev1.Node) error) error {
	for try := 1; ; try++ {
		var node corev1.Node
		if err := a.o.Live.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return fmt.Errorf("getting node %s: %w", name, err)
		}
		err := do(&node)
		if !apierrors.IsConflict(err) || try == tries {
			return err
		}
	}
}

// onSeen is onNode for the very node that the plan was made on.
func (a *Actor) onSeen(ctx context.Context, r *round, name string, do func(*corev1.Node) error) error {
	seen, ok := r.nodes[name]
	if !ok {
		return refuse("node %s was not in the snapshot", name)
	}
	return a.onNode(ctx, name, func(node *corev1.Node) error {
		if !same(node, seen.UID, seen.Created) {
			return refuse("node %s is another one than the plan was made on", name)
		}
		return do(node)
	})
}

// same reports whether an object is the very one that was seen, not another of its
// name. Where nobody said its UID it goes by when it was made, to the second.
func same(o client.Object, uid string, created time.Time) bool {
	if uid != "" {
		return string(o.GetUID()) == uid
	}
	return o.GetCreationTimestamp().Time.Equal(created)
}
