package loop

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/explain"
	"github.com/gpuscale/gpuscale/plan"
)

// Announcer writes Events on pods and nodes and the status of pools.
type Announcer struct {
	client   client.Client
	recorder record.EventRecorder
	log      *slog.Logger
	said     map[string]line      // last told to a pod
	begun    map[string]bool      // actions under way that have been told
	written  map[string]time.Time // when a pool's message was last written
}

// line is what a pod was told last. It is told again while it holds, since the API
// server forgets Events after an hour.
type line struct {
	reason plan.Reason
	at     time.Time
}

const sayAgain = 15 * time.Minute

// NewAnnouncer returns a Publisher. c may read from a cache.
func NewAnnouncer(c client.Client, recorder record.EventRecorder, log *slog.Logger) *Announcer {
	return &Announcer{client: c, recorder: recorder, log: log, said: map[string]line{}, begun: map[string]bool{}, written: map[string]time.Time{}}
}

// Publish implements Publisher. What cannot be told is logged and told again
// next round, where it still holds.
func (a *Announcer) Publish(ctx context.Context, r Round) {
	begun := map[string]bool{}
	answers, told := map[string]string{}, map[string]bool{}
	if len(r.Results) > 0 {
		answers = served(r.Plan.Verdicts)
	}
	for _, result := range r.Results {
		switch result.Outcome {
		case act.Done, act.Failed:
			a.announce(ctx, result, answers, told)
		case act.Waiting: // takes several rounds: told when it begins, and when it has ended
			key := underWay(result.Action)
			if begun[key] = true; !a.begun[key] {
				a.announce(ctx, result, answers, told)
			}
		}
	}
	a.begun = begun
	a.verdicts(ctx, r, told)
	if err := a.statuses(ctx, r); err != nil && ctx.Err() == nil {
		a.log.Warn("publishing the status of pools failed", "err", err)
	}
	if err := a.quotas(ctx, r); err != nil && ctx.Err() == nil {
		a.log.Warn("publishing the status of quotas failed", "err", err)
	}
}

// words of an action's Event.
var words = map[plan.Verb]string{
	plan.ScaleUp:     "TriggeredScaleUp",
	plan.Repartition: "TriggeredRepartition",
	plan.Rollback:    "RolledBack",
	plan.Uncordon:    "Uncordoned",
	plan.Drain:       "Drained",
	plan.RemoveNode:  "RemovedNode",
	plan.Reclaim:     "Reclaimed",
	plan.Replace:     "ReplacedNode",
}

// beginnings are the words of actions that take several rounds.
var beginnings = map[plan.Verb]string{
	plan.Repartition: "Repartitioning",
	plan.Rollback:    "RollingBack",
	plan.Uncordon:    "Uncordoning",
	plan.Drain:       "Draining",
	plan.RemoveNode:  "RemovingNode",
	plan.ScaleUp:     "ScalingUp",
	plan.Reclaim:     "Reclaiming",
	plan.Replace:     "ReplacingNode",
}

// underWay names an action that takes several rounds. Its detail is no part of
// the name, since that counts seconds.
func underWay(a plan.Action) string {
	return fmt.Sprintf("%s %s/%s %s: %s", a.Verb, a.Pool, a.Node, a.Pod, a.Reason)
}

// served are the answers to pods that something is done for, by their names.
func served(verdicts []plan.Verdict) map[string]string {
	out := map[string]string{}
	for _, v := range verdicts {
		if v.Kind == plan.KindPod && (v.Reason == plan.WaitUpcomingNode || v.Reason == plan.WaitRepartition || v.Reason == plan.WaitReclaim) {
			out[v.Subject] = v.Detail
		}
	}
	return out
}

// announce tells what was done. A pod that it was done for hears in the same line
// what that means for it, and is noted in told: one line is enough.
func (a *Announcer) announce(ctx context.Context, r act.Result, answers map[string]string, done map[string]bool) {
	eventType, word := corev1.EventTypeNormal, words[r.Action.Verb]
	text := fmt.Sprintf("%s: %s", r.Action.Reason, r.Action.Detail)
	switch r.Action.Verb {
	case plan.ScaleUp:
		text = fmt.Sprintf("%s %d→%d, %s", r.Action.Pool, r.Action.From, r.Action.To, text)
	case plan.Repartition:
		text = fmt.Sprintf("card %d of %s, %s", r.Action.Card, r.Action.Node, text)
	case plan.Reclaim:
		text = fmt.Sprintf("%s on %s, %s", r.Action.Pod, r.Action.Node, text)
	}
	switch r.Outcome {
	case act.Waiting:
		word = beginnings[r.Action.Verb]
	case act.Failed:
		eventType, word, text = corev1.EventTypeWarning, word+"Failed", fmt.Sprintf("%s: %v", text, r.Err)
	}
	if r.Action.Verb == plan.Rollback { // something went wrong, however well it is undone
		eventType = corev1.EventTypeWarning
	}
	for _, key := range told(r.Action) {
		if pod := a.pod(ctx, key); pod != nil {
			mine := text
			if answer := answers[key]; answer != "" && r.Outcome != act.Failed {
				mine, done[key] = text+"; "+answer, true
			}
			a.recorder.Event(pod, eventType, word, mine)
		}
	}
	if r.Action.Node != "" {
		a.recorder.Event(nodeRef(r.Action.Node), eventType, word, text)
	}
}

// told are the pods that an action is done for, and the one it is done to.
func told(a plan.Action) []string {
	if a.Pod == "" || slices.Contains(a.For, a.Pod) {
		return a.For
	}
	return append([]string{a.Pod}, a.For...)
}

// nodeRef is how Events are attached to nodes: kubectl looks for those whose UID
// is the node's name, as kubelet's own are.
func nodeRef(name string) runtime.Object {
	return &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}
}

// quiet reasons need no Event: the scheduler says the same, or all is well.
var quiet = map[plan.Reason]bool{plan.Running: true, plan.WaitScheduler: true}

// verdicts tells each pod why it waits and what to ask for: once for each reason,
// and again after a while.
func (a *Announcer) verdicts(ctx context.Context, r Round, told map[string]bool) {
	said := make(map[string]line, len(a.said))
	for _, v := range r.Plan.Verdicts {
		if v.Kind != plan.KindPod || quiet[v.Reason] {
			continue
		}
		last, known := a.said[v.Subject]
		if known && last.reason == v.Reason && r.Now.Sub(last.at) < sayAgain {
			said[v.Subject] = last
			continue
		}
		said[v.Subject] = line{v.Reason, r.Now}
		if told[v.Subject] {
			continue
		}
		if pod := a.pod(ctx, v.Subject); pod != nil {
			note, warns := explain.Note(v)
			kind := corev1.EventTypeNormal
			if warns {
				kind = corev1.EventTypeWarning
			}
			a.recorder.Event(pod, kind, string(v.Reason), note)
		}
	}
	a.said = said
}

// pod returns a pod from the cache, nil where it is gone.
func (a *Announcer) pod(ctx context.Context, key string) *corev1.Pod {
	namespace, name, _ := strings.Cut(key, "/")
	var pod corev1.Pod
	if err := a.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod); err != nil {
		return nil
	}
	return &pod
}
