package act

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// promiseLasts is how long a place is kept for a pod: as long as a pod that was asked
// to leave may take, and some more.
const promiseLasts = 2 * time.Minute

// promise is a place that is being made free for a pod.
type promise struct {
	node  string
	until time.Time
}

// promise has the scheduler keep a place for the pods that it is about to be made free
// for: while it looks at pods of the same or a lower priority it counts a nominated one
// as if it ran there already. Otherwise whoever comes first has the place, and that is
// often the successor of the pod that had to leave.
//
// It is a wish. The scheduler forgets it whenever it tries the pod and finds no room,
// so each round nominates again until the pod is bound; what slips through is reclaimed
// once more.
func (a *Actor) promise(ctx context.Context, r *round, pods []string, node string) {
	if !a.o.Nominate {
		return
	}
	for _, key := range pods {
		a.promises[key] = promise{node, r.now.Add(promiseLasts)}
		a.nominate(ctx, r, key, node)
	}
}

// breakPromise forgets pods whose place is not made free after all: nominated again and
// again, they would keep others from whatever becomes free there. The nomination itself
// goes with the scheduler's next try.
func (a *Actor) breakPromise(pods []string) {
	for _, key := range pods {
		delete(a.promises, key)
	}
}

// keepPromises nominates again who has been forgotten, and forgets who needs it no more.
func (a *Actor) keepPromises(ctx context.Context, r *round) {
	for _, key := range slices.Sorted(maps.Keys(a.promises)) {
		p := a.promises[key]
		if seen, ok := r.pod(key); !ok || seen.Node != "" || r.now.After(p.until) {
			delete(a.promises, key)
			continue
		}
		a.nominate(ctx, r, key, p.node)
	}
}

func (a *Actor) nominate(ctx context.Context, r *round, key, node string) {
	if err := a.tryNominate(ctx, r, key, node); err != nil && ctx.Err() == nil {
		a.o.Log.Warn("a place is not kept for whom it is made free", "pod", key, "node", node, "err", err)
	}
}

func (a *Actor) tryNominate(ctx context.Context, r *round, key, node string) error {
	seen, ok := r.pod(key)
	if !ok || seen.UID == "" {
		return nil // it is still to be made
	}
	namespace, name, _ := strings.Cut(key, "/")
	var pod corev1.Pod
	if err := a.o.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !same(&pod, seen.UID, seen.Created) || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Status.NominatedNodeName != "" {
		return nil // it needs none, or has one; the scheduler's own is the better one
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"nominatedNodeName": node},
	})
	if err != nil {
		return fmt.Errorf("writing a nomination: %w", err)
	}
	return client.IgnoreNotFound(a.o.Client.Status().Patch(ctx, &pod, client.RawPatch(types.MergePatchType, patch)))
}
