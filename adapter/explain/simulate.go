package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Load is how values change with the number of replicas.
type Load string

// Loads.
const (
	// Recorded: values are as recorded, whatever the replicas.
	Recorded Load = "recorded"
	// Total: the workload's total load is as recorded. An average or a maximum
	// is divided among the simulated replicas; a sum does not change.
	Total Load = "total"
)

// Simulation is what to replay.
type Simulation struct {
	Range
	Options
	Load Load
	// Replicas at the beginning; nil for the recorded number.
	Replicas *int32
	// Progress receives the rule being queried and the finished steps.
	Progress func(rule string, done, total int)
}

// maxReplicas bounds the simulated pods of each step.
const maxReplicas = 100_000

// Moment is one step of a simulation.
type Moment struct {
	At time.Time `json:"at"`
	// Values of the metrics in the HPA's order, null where there was none.
	// Those of type Pods are averages.
	Values []*float64 `json:"values"`
	Error  string     `json:"error,omitempty"`
	// Recorded is the number of the target's pods that reported at the time.
	Recorded int `json:"recordedReplicas"`
	// Proposed is the highest proposal, Replicas the number after the step.
	Proposed int32  `json:"proposedReplicas"`
	Replicas int32  `json:"replicas"`
	Why      string `json:"why,omitempty"`
	// Limited is why Replicas is not Proposed: the reason of the condition
	// ScalingLimited, or "Stabilized".
	Limited string `json:"limited,omitempty"`
	// Unknown: no metric could be computed.
	Unknown bool `json:"unknown,omitempty"`
}

// simulated is one metric and its past.
type simulated struct {
	asked
	rule  Rule
	lives map[string]life // of the pods that it is about

	// For each step: the table that an adapter would have had, and the failure
	// of the query.
	tables   []*signal.Table
	failures []error
}

// Simulate replays the HPA's metrics over a range and applies its arithmetic to
// simulated replicas.
func Simulate(ctx context.Context, w World, s Simulation) (Timeline, error) {
	spec := w.HPA.Spec
	spec.Metrics = nil
	if spec.MaxReplicas > maxReplicas || s.Replicas != nil && *s.Replicas > maxReplicas {
		return Timeline{}, fmt.Errorf("a simulation has at most %d replicas: try --set maxReplicas=%d", maxReplicas, maxReplicas)
	}
	lives := map[string]life{}
	t := Timeline{Version: TimelineVersion, Namespace: w.HPA.Namespace, Name: w.HPA.Name, From: s.From, To: s.To, Step: s.Step.String(), Load: s.Load}
	var metrics []simulated
	for _, m := range w.HPA.Spec.Metrics {
		a, err := w.metricOf(m)
		if err != nil {
			t.Left = append(t.Left, err.Error())
			continue
		}
		rule, elsewhere, err := s.rule(a)
		switch {
		case err != nil:
			return t, err
		case elsewhere != "":
			t.Left = append(t.Left, elsewhere)
			continue
		}
		one := simulated{asked: a, rule: rule}
		if err := one.recall(ctx, s.Range, lives, func(done int) { s.Progress(a.name, done, s.steps()) }); err != nil {
			return t, err
		}
		metrics, spec.Metrics, t.Metrics = append(metrics, one), append(spec.Metrics, m), append(t.Metrics, a.String())
	}
	if len(metrics) == 0 {
		return t, errors.New("none of the HPA's metrics is served by the adapter: there is nothing to simulate")
	}
	for i, m := range metrics {
		metrics[i].lives = among(lives, w.belonging(ctx, m.asked))
	}
	s.play(ctx, w, spec, metrics, among(lives, w.ofTarget()), &t)
	t.summarize(s.Step, spec.MaxReplicas)
	return t, nil
}

// ofTarget returns which pods of the past were the target's.
func (w World) ofTarget() func(pod string) bool {
	target := w.HPA.Spec.ScaleTargetRef
	return naming(target.Kind, target.Name, w.adapter.Pods.Select(w.HPA.Namespace, w.Selector))
}

// belonging returns which pods of the past a metric is about.
func (w World) belonging(ctx context.Context, a asked) func(pod string) bool {
	of := a.object.Ref
	switch {
	case a.kind == autoscaling.ExternalMetricSourceType || of.Kind == "Namespace":
		return func(string) bool { return true }
	case of.Kind == "Pod":
		return func(pod string) bool { return pod == of.Name }
	case a.kind == autoscaling.ObjectMetricSourceType:
		now, _ := w.adapter.PodsOf(ctx, a.object) // a deleted Service has none
		return naming(of.Kind, of.Name, now)
	}
	return w.ofTarget()
}

// play runs the controller over the range. lives are those of the target's pods.
func (s Simulation) play(ctx context.Context, w World, spec autoscaling.HorizontalPodAutoscalerSpec, metrics []simulated, lives map[string]life, t *Timeline) {
	limit := metrics[0].rule.MaxAge
	reported := func(at time.Time) int { return len(living(lives, at, s.To, limit)) }
	replicas := int32(reported(s.From))
	if s.Replicas != nil {
		replicas = *s.Replicas
	}
	ctl := hpa.Controller{Tolerance: s.Tolerance, Window: s.Window, ScaledToZero: replicas == 0}
	t.Initial = replicas
	for i := range s.steps() {
		at := s.at(i)
		m := Moment{At: at, Recorded: reported(at), Values: make([]*float64, len(metrics))}
		d := ctl.Reconcile(hpa.Situation{
			Now: at, Spec: spec, Replicas: replicas, StatusReplicas: replicas, Pods: ready(replicas),
			Answers: func() []hpa.Answer {
				answers := make([]hpa.Answer, len(metrics))
				for n, metric := range metrics {
					pods := living(metric.lives, at, s.To, limit)
					answers[n], m.Values[n] = s.answer(ctx, w, metric, i, pods, replicas)
				}
				return answers
			},
		})
		if d.Error != nil {
			m.Error, m.Unknown = d.Error.Error(), ctl.Active != "ValidMetricFound"
		}
		m.Proposed, m.Replicas, m.Why = d.Proposed, d.Desired, d.Why
		switch {
		case len(d.Proposals) == 0 || m.Unknown:
		case d.Desired != d.Stable:
			m.Limited = ctl.Limited
		case d.Stable != d.Proposed:
			m.Limited = "Stabilized"
		}
		replicas = d.Desired
		t.Moments = append(t.Moments, m)
	}
}

// answer is what the adapter would have answered for the simulated replicas.
func (s Simulation) answer(ctx context.Context, w World, m simulated, i int, pods []string, replicas int32) (hpa.Answer, *float64) {
	w.adapter = provider.Answerer{Pods: recorded(pods), Scales: recorded(pods)}
	got := w.answer(ctx, m.asked, m.tables[i], m.failures[i], s.at(i))
	if got.Error != nil {
		return got.Answer, nil
	}
	share := 1.0
	if s.Load == Total && replicas > 0 && len(pods) > 0 && (m.kind == autoscaling.PodsMetricSourceType || m.rule.PerWorkload != signal.Sum) {
		share = float64(len(pods)) / float64(replicas)
	}
	if got.Pods != nil {
		return spread(got, pods, replicas, share, m.rule.Maximum)
	}
	value := got.value.Value
	if share != 1 {
		value = min(value*share, m.rule.Maximum)
	}
	return hpa.Answer{Values: []int64{signal.Milli(value)}}, &value
}

// spread assigns the recorded pods' values, missing ones included, to the
// replicas in turn.
func spread(got answer, pods []string, replicas int32, share, maximum float64) (hpa.Answer, *float64) {
	values := map[string]int64{}
	total := 0.0
	for i := range replicas {
		milli, ok := got.Pods[pods[int(i)%len(pods)]]
		if !ok {
			continue
		}
		v := float64(milli) / 1000
		if share != 1 {
			v = min(v*share, maximum)
		}
		values[fmt.Sprintf("p-%d", i)] = signal.Milli(v)
		total += v
	}
	if len(values) == 0 {
		return hpa.Answer{Error: errors.New("none of the replicas would have had a value")}, nil
	}
	mean := total / float64(len(values))
	return hpa.Answer{Pods: values}, &mean
}

// recorded are the pods that existed. Every object is taken to own all of them.
type recorded []string

func (recorded) Ready() error                                               { return nil }
func (r recorded) Lives(_, pod string) (time.Time, bool)                    { return time.Time{}, slices.Contains(r, pod) }
func (r recorded) Select(string, labels.Selector) []string                  { return r }
func (r recorded) Owned(string, schema.GroupKind, string) ([]string, error) { return r, nil }
func (recorded) Service(string, string) (labels.Selector, error)            { return labels.Everything(), nil }

func (r recorded) Scale(context.Context, schema.GroupVersionResource, string, string) (provider.Scale, error) {
	return provider.Scale{Selector: labels.Everything(), Replicas: int32(len(r)), StatusReplicas: int32(len(r))}, nil
}

func ready(n int32) []hpa.Pod {
	pods := make([]hpa.Pod, n)
	for i := range pods {
		pods[i] = hpa.Pod{Name: fmt.Sprintf("p-%d", i), Phase: core.PodRunning, Ready: true}
	}
	return pods
}
