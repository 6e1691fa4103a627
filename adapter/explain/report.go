package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Version of the report's JSON. Fields are added to it, never changed.
const Version = "gpuscale.explain/v1"

// Report is one HPA explained.
type Report struct {
	Version   string    `json:"version"`
	At        time.Time `json:"at"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Target    string    `json:"target"`
	Minimum   int32     `json:"minReplicas"`
	Maximum   int32     `json:"maxReplicas"`
	Replicas  int32     `json:"replicas"`
	Metrics   []Metric  `json:"metrics"`
	Outcome   Outcome   `json:"outcome"`
	Status    Status    `json:"status"`
}

// Metric is one of the HPA's metrics explained. Values are in the metric's own
// unit, as float64.
type Metric struct {
	Metric string `json:"metric"`
	// NotServed is why the adapter does not serve the metric; then nothing else
	// is set.
	NotServed string `json:"notServed,omitempty"`
	Request   string `json:"request,omitempty"`
	Rule      string `json:"rule,omitempty"`
	Query     string `json:"query,omitempty"`
	Hint      string `json:"hint,omitempty"`
	Samples   []Row  `json:"samples,omitempty"`
	// Dropped counts this namespace's series without a usable value.
	Dropped map[signal.Reason]int `json:"dropped,omitempty"`
	// Stale pods had a sample in the last ten minutes and have no usable one
	// now; Unseen pods had none.
	Stale  []string `json:"stalePods,omitempty"`
	Unseen []string `json:"unseenPods,omitempty"`

	Value      *float64           `json:"value,omitempty"`
	PodValues  map[string]float64 `json:"podValues,omitempty"`
	Timestamp  *time.Time         `json:"timestamp,omitempty"`
	WindowSecs float64            `json:"windowSeconds,omitempty"`
	Error      string             `json:"error,omitempty"`
	Code       int                `json:"code,omitempty"`
	// ViaAPI is the aggregated API's answer, if requested.
	ViaAPI   string `json:"viaAPI,omitempty"`
	Proposal string `json:"proposal,omitempty"`
	Replicas *int32 `json:"replicas,omitempty"`

	asked  asked
	failed bool // the query failed
}

// Outcome is what the HPA will do at its next reconciliation.
type Outcome struct {
	Desired int32 `json:"desiredReplicas"`
	// Unknown: no metric is computed here, and Desired is not set.
	Unknown bool     `json:"unknown,omitempty"`
	Steps   []string `json:"steps"`
}

// Status is the HPA's own status.
type Status struct {
	Desired    int32    `json:"desiredReplicas"`
	Conditions []string `json:"conditions,omitempty"`
}

// Options of an explanation and a simulation.
type Options struct {
	Rules []Rule
	// Elsewhere, if not "", names other sources of metrics, so that a metric
	// without a rule is no error.
	Elsewhere string
	// Tolerance and Window are the controller manager's flags.
	Tolerance float64
	Window    time.Duration
	// Version of custom.metrics.k8s.io the HPA controller prefers.
	APIVersion string
	// ViaAPI, if not nil, queries the aggregated API and returns its answer as
	// text.
	ViaAPI func(ctx context.Context, path string) string
}

// Explain queries Prometheus for each metric of the HPA and computes the HPA's
// replicas.
func Explain(ctx context.Context, w World, o Options) Report {
	spec := w.HPA.Spec
	r := Report{
		Version: Version, At: time.Now().UTC(), Namespace: w.HPA.Namespace, Name: w.HPA.Name,
		Target:  spec.ScaleTargetRef.Kind + " " + spec.ScaleTargetRef.Name,
		Minimum: *spec.MinReplicas, Maximum: spec.MaxReplicas, Replicas: w.Replicas, Metrics: make([]Metric, len(spec.Metrics)),
	}
	var ours []*Metric // the metrics that are computed here
	var answers []hpa.Answer
	computed := spec
	computed.Metrics = nil
	for i, m := range spec.Metrics {
		if a, ok := r.Metrics[i].explain(ctx, w, m, o); ok {
			ours, answers, computed.Metrics = append(ours, &r.Metrics[i]), append(answers, a), append(computed.Metrics, m)
		}
	}
	if len(ours) > 0 {
		ctl := hpa.Controller{Tolerance: o.Tolerance, Window: o.Window, ScaledToZero: w.reports("ScaledToZero") != ""}
		d := ctl.Reconcile(hpa.Situation{
			Now: r.At, Spec: computed, Replicas: w.Replicas, StatusReplicas: w.StatusReplicas,
			Pods: w.Pods, Answers: func() []hpa.Answer { return answers },
		})
		for n, p := range d.Proposals {
			ours[n].Proposal = sentence(p, ours[n].asked, w, o.Tolerance)
			if p.Error == nil {
				ours[n].Replicas = &p.Replicas
			}
		}
		r.Outcome = outcome(d, ctl, w, o)
	}
	r.Outcome.Unknown = len(ours) == 0
	if others := len(spec.Metrics) - len(ours); others > 0 {
		r.Outcome.Steps = append(r.Outcome.Steps, fmt.Sprintf("%s not computed here: the HPA's result may be higher than this, never lower than the highest proposal", provider.Count(others, "metric")))
	}
	r.Status.Desired = w.HPA.Status.DesiredReplicas
	for _, c := range w.HPA.Status.Conditions {
		r.Status.Conditions = append(r.Status.Conditions, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return r
}

// explain fills in one of the HPA's metrics. ours reports whether the adapter answers it.
func (x *Metric) explain(ctx context.Context, w World, m autoscaling.MetricSpec, o Options) (_ hpa.Answer, ours bool) {
	a, err := w.metricOf(m)
	switch {
	case err != nil && a.name == "":
		x.Metric, x.NotServed = string(m.Type), err.Error()
		return hpa.Answer{}, false
	case err != nil:
		x.asked, x.Metric, x.Error, x.Code = a, a.String(), err.Error(), http.StatusBadRequest
		return hpa.Answer{Error: err}, true
	}
	x.asked, x.Metric, x.Request = a, a.String(), a.path(o.APIVersion, w.Selector)
	if o.ViaAPI != nil {
		x.ViaAPI = o.ViaAPI(ctx, x.Request)
	}
	rule, elsewhere, err := o.rule(a)
	switch {
	case elsewhere != "":
		x.NotServed = elsewhere + "; --via-api shows its answer"
		return hpa.Answer{}, false
	case err != nil:
		x.Error, x.Code = err.Error(), http.StatusNotFound
		return hpa.Answer{Error: err}, true
	}
	limit := rule.MaxAge.String()
	if rule.Follow > 0 {
		limit += fmt.Sprintf(" or two and a half scrape intervals and %s, at most %s", rule.Follow, signal.Lookback)
	}
	x.Rule = fmt.Sprintf("%s (%s): duplicates %s, parts of a pod %s, pods %s, samples no older than %s, values from %g to %g",
		rule.Name, rule.Source, rule.Duplicates, rule.PerPod, rule.PerWorkload, limit, rule.Minimum, rule.Maximum)
	x.Query, x.WindowSecs = rule.Query(a.namespace), rule.Window.Seconds()
	r, failure := read(ctx, rule, a.namespace)
	got := w.answer(ctx, a, r.table, failure, r.Now)
	counts := func(pod string) bool {
		_, lives := w.adapter.Pods.Lives(a.namespace, pod)
		return got.pods == nil && lives || slices.Contains(got.pods, pod)
	}
	x.Samples, x.Dropped = r.rows(rule.Rule, a, counts), r.dropped
	x.Hint = hint(rule.Rule, a, x.Samples)
	if x.failed = failure != nil; !x.failed { // else nothing is known of pods without a sample
		x.missing(w, r, got.pods)
	}
	switch {
	case got.Error != nil:
		x.Error, x.Code = got.Error.Error(), provider.Code(got.Error)
	case got.Pods != nil:
		x.PodValues = map[string]float64{}
		for pod, milli := range got.Pods {
			x.PodValues[pod] = float64(milli) / 1000
		}
	default:
		x.Value, x.Timestamp = &got.value.Value, new(got.value.Time.UTC()) // the same in every time zone
	}
	return got.Answer, true
}

// hint is the PromQL of the first source that is used, or of the first source if none is.
func hint(rule signal.Rule, a asked, samples []Row) string {
	if i := slices.IndexFunc(samples, func(row Row) bool { return row.Reason == "" }); i >= 0 {
		rule.Sources = rule.Sources[samples[i].source:]
	}
	return rule.Hint(a.namespace, a.selector)
}

// missing lists the counted pods without a usable value.
func (x *Metric) missing(w World, r reading, pods []string) {
	table := r.table.Among(w.adapter.Pods.Lives)
	for _, pod := range pods {
		_, err := table.Pod(signal.Key{Namespace: x.asked.namespace, Pod: pod}, x.asked.selector, r.Now)
		var none *signal.NoAnswer
		switch {
		case !errors.As(err, &none):
		case none.Stale > 0:
			x.Stale = append(x.Stale, pod)
		default:
			x.Unseen = append(x.Unseen, pod)
		}
	}
}

// WriteJSON writes a report or a timeline as indented JSON.
func WriteJSON(out io.Writer, of any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(of)
}
