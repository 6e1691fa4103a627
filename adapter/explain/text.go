package explain

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/text"
)

// maxRows and maxNames bound the samples and the listed pods in text output. JSON has all
// of them.
const maxRows, maxNames = 30, 10

// Text writes the report as plain text.
func (r Report) Text(out io.Writer) error {
	p := &printer{}
	p.line("HPA %s/%s: %s, %d to %d replicas, %d now", r.Namespace, r.Name, r.Target, r.Minimum, r.Maximum, r.Replicas)
	for i, m := range r.Metrics {
		p.line("")
		p.line("metric %d of %d: %s", i+1, len(r.Metrics), m.Metric)
		if m.NotServed != "" {
			p.field("unserved", m.NotServed)
			p.field("via API", m.ViaAPI)
			continue
		}
		p.metric(m, r.At)
	}
	p.line("")
	if r.Outcome.Unknown {
		p.line("the HPA's next replicas are unknown: none of its metrics is computed here")
	} else {
		p.line("the HPA will set %s", provider.Count(int(r.Outcome.Desired), "replica"))
	}
	for _, s := range r.Outcome.Steps {
		p.line("  %s", s)
	}
	p.line("its status has %d", r.Status.Desired)
	for _, c := range r.Status.Conditions {
		p.line("  %s", c)
	}
	_, err := io.WriteString(out, p.plain())
	return err
}

// printer is the text of a report.
type printer struct{ strings.Builder }

func (p *printer) line(format string, args ...any) { fmt.Fprintf(&p.Builder, format+"\n", args...) }

// plain returns the text without control characters, since pods choose the values of their
// labels.
func (p *printer) plain() string { return text.Lines(p.String()) }

func (p *printer) field(name, value string) {
	if value != "" {
		p.line("  %-9s %s", name, value)
	}
}

func (p *printer) metric(m Metric, at time.Time) {
	if m.Request != "" {
		p.field("request", "GET "+m.Request)
	}
	p.field("rule", m.Rule)
	p.field("query", truncate(m.Query))
	p.field("paste", m.Hint)
	switch {
	case m.failed:
		p.field("samples", "unknown, since the query failed")
	case m.Rule != "":
		p.samples(m.Samples)
	}
	p.field("dropped", dropped(m.Dropped))
	if len(m.Stale) > 0 {
		p.field("stale", text.Several(m.Stale, maxNames)+": a sample in the last "+signal.Forget.String()+", no usable one now")
	}
	if len(m.Unseen) > 0 {
		p.field("unseen", text.Several(m.Unseen, maxNames)+": no sample in the last "+signal.Forget.String()+", left out")
	}
	p.field("answer", m.answer(at))
	p.field("via API", m.ViaAPI)
	p.field("HPA", m.Proposal)
}

// truncate shortens the query of a rule with many sources.
func truncate(query string) string {
	const most = 400
	if len(query) <= most {
		return query
	}
	return fmt.Sprintf("%s… (%d more characters: see -o json)", strings.ToValidUTF8(query[:most], ""), len(query)-most)
}

// answer is the adapter's answer in words.
func (m Metric) answer(at time.Time) string {
	switch {
	case m.Error != "":
		return fmt.Sprintf("error %d: %s", m.Code, m.Error)
	case m.Value != nil:
		return fmt.Sprintf("%s, its oldest sample %s old, window %gs", short(*m.Value), at.Sub(*m.Timestamp).Round(time.Second), m.WindowSecs)
	}
	pods := slices.Sorted(maps.Keys(m.PodValues))
	for i, pod := range pods {
		pods[i] = pod + " " + short(m.PodValues[pod])
	}
	return text.Several(pods, maxNames)
}

func (p *printer) samples(rows []Row) {
	if len(rows) == 0 {
		p.field("samples", "none in this namespace")
		return
	}
	p.line("  samples")
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "    POD\tSERIES\tLABELS\tVALUE\tAGE\tDROPPED") // a Builder takes everything
	for i, r := range rows {
		if i == maxRows {
			_, _ = fmt.Fprintf(t, "    and %d more\n", len(rows)-maxRows)
			break
		}
		age := (time.Duration(r.AgeSeconds*1000) * time.Millisecond).Round(time.Second)
		_, _ = fmt.Fprintf(t, "    %s\t%s\t%s\t%s\t%s\t%s\n", r.Pod, r.Metric, r.Labels, r.Value, age, r.Reason)
	}
	_ = t.Flush()
	for line := range strings.Lines(text.String()) {
		p.line("%s", strings.TrimRight(line, " \n"))
	}
}

func dropped(by map[signal.Reason]int) string {
	var parts []string
	for _, reason := range signal.Reasons() {
		if n := by[reason]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, reason))
		}
	}
	return strings.Join(parts, ", ")
}

// sentence describes how a proposal is computed.
func sentence(p hpa.Proposal, a asked, w World, tolerance float64) string {
	if p.Error != nil {
		return "no proposal"
	}
	band := hpa.TolerancesOf(w.HPA.Spec.Behavior, tolerance)
	s := fmt.Sprintf("%s of a target of %s: ratio %s", short(float64(p.Usage)/1000), short(float64(p.Target)/1000), short(p.Ratio))
	switch {
	case a.kind == autoscaling.PodsMetricSourceType:
		s = fmt.Sprintf("average %s over %s", s, provider.Count(p.Counted, "pod"))
		if p.Missing+p.Unready > 0 {
			s += fmt.Sprintf("; %s without a value, %d pending: taken as %s, ratio %s", provider.Count(p.Missing, "pod"), p.Unready, assumption(p.Ratio), short(p.Assumed))
		}
	case w.StatusReplicas > 0 && a.target.AverageValue != nil:
		s = fmt.Sprintf("shared by %s: %s", provider.Count(int(w.StatusReplicas), "replica"), s)
	}
	switch {
	case p.Within:
		s += fmt.Sprintf(", within %s to %s, so no change: %d", short(1-band.Down), short(1+band.Up), p.Replicas)
	case p.Reversed:
		s += fmt.Sprintf("; the assumed values would reverse the direction, so no change: %d", p.Replicas)
	default:
		s += fmt.Sprintf("; proposes %d", p.Replicas)
	}
	return s
}

func assumption(ratio float64) string {
	if ratio > 1 {
		return "idle, since the others are above target"
	}
	return "on target, since the others are below"
}

// outcome describes the steps from the proposals to the replicas.
func outcome(d hpa.Decision, ctl hpa.Controller, w World, o Options) Outcome {
	x := Outcome{Desired: d.Desired}
	step := func(format string, args ...any) { x.Steps = append(x.Steps, fmt.Sprintf(format, args...)) }
	switch ambiguous := w.reports("AmbiguousSelector"); {
	case ctl.Active == "ScalingDisabled":
		step("the target is at 0 replicas, which the HPA did not set: scaling is disabled until its replicas are set")
		return x
	case len(d.Proposals) == 0:
		step("%s: no metric is read", d.Why)
		return x
	case ambiguous != "": // the controller computes nothing while the selector is ambiguous
		x.Desired = w.Replicas
		step("%s; so nothing changes until one HPA is left", ambiguous)
		return x
	case d.Error != nil && d.Desired == w.Replicas && ctl.Active != "ValidMetricFound":
		step("%v; so nothing changes", d.Error)
		return x
	case d.Error != nil:
		step("%v; the others may scale up, not down", d.Error)
	}
	step("the highest proposal is %d", d.Proposed)
	if d.Stable != d.Proposed {
		step("stabilisation makes it %d", d.Stable)
	}
	if d.Desired != d.Stable {
		step("limited to %d (%s)", d.Desired, ctl.Limited)
	}
	if d.Desired < w.Replicas {
		step("%s", window(w, o))
	}
	return x
}

// window describes the stabilization. The controller's recent recommendations
// are not visible in the API.
func window(w World, o Options) string {
	length := o.Window
	if b := w.HPA.Spec.Behavior; b != nil && b.ScaleDown.StabilizationWindowSeconds != nil {
		length = time.Duration(*b.ScaleDown.StabilizationWindowSeconds) * time.Second
	}
	if length == 0 {
		return "no window delays scaling down"
	}
	s := fmt.Sprintf("this happens once no recommendation of the last %s was higher; only the controller knows them", length)
	if w.reports("ScaleDownStabilized") != "" {
		s += " (its status reports that one was)"
	}
	return s
}

// short rounds to three decimals. f may be infinite: the HPA divides by the
// number of replicas, which may be zero.
func short(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return "of a division by zero"
	}
	return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64)
}
