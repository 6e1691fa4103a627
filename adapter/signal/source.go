package signal

import (
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
)

// Form is how a source's series become a value.
type Form string

// Forms.
const (
	Value    Form = ""         // as it is
	Rate     Form = "rate"     // of a counter, per second, over the rule's Window
	Quantile Form = "quantile" // of a histogram, classic or native, over the rule's Window
	Mean     Form = "mean"     // as Quantile
	PromQL   Form = "promql"   // the result of the source's Query
)

// Source is one PromQL vector a rule reads.
type Source struct {
	// Metric is the series; for a Quantile or Mean the histogram, without "_bucket".
	Metric string `json:"metric"`
	Form   Form   `json:"form,omitempty"`
	// Query of form PromQL. At least one selector has [NamespacesVariable] in a
	// matcher, unless the rule has Namespaces. The rule's PerPod aggregates the result
	// for each subject. The result is as old as the oldest sample of those selectors.
	Query string `json:"-"`
	// Quantile between 0 and 1.
	Quantile float64 `json:"quantile,omitempty"`
	// Over, if set, divides Metric by this series of the same labels; for a
	// Rate the rate of one by the rate of the other.
	Over string `json:"over,omitempty"`
	// Matchers narrow Metric and Over.
	Matchers Matchers `json:"matchers,omitempty"`
	// Without are labels that Prometheus sums away, since a page may have hundreds of
	// their values. A histogram has none: it is summed by Identity.
	Without []string `json:"without,omitempty"`
	// Scale, if set, multiplies the value.
	Scale *float64 `json:"scale,omitempty"`
	// Tier of the source; in a file its index in the list if unset. Sources of one tier are
	// combined.
	Tier *int `json:"tier,omitempty"`
	// Server is the software that exports the series. A request can select by
	// it, under the name [SourceLabel].
	Server string `json:"server,omitempty"`
	// Identity replaces the rule's for this source's series.
	Identity []string `json:"identity,omitempty"`
	// Apart: its series are never duplicates of another source's in its tier, even with the
	// same labels.
	Apart bool `json:"-"`
	// Gateway: the series is a gateway's, and the servers behind the gateway
	// count the same requests. An answer for a namespace leaves it out if such
	// a server is known there.
	Gateway bool `json:"gateway,omitempty"`
	// Unless, if set, is a series with the same labels. While it is 0, the value is a
	// leftover and is dropped.
	Unless string `json:"-"`
	// GatewayLabel, if set, marks the series of a gateway that exports them under its servers' names.
	// In a source with a Server, [metric.LabelWorkerAddr] marks them too.
	GatewayLabel string `json:"gatewayLabel,omitempty"`

	// Fleeting: the parts of a pod come and go while it serves. A part that a later scrape
	// of the same page lacks has ended. In other sources such a part is stale, and its pod
	// with it. Parts that no Identity declares are fleeting.
	Fleeting bool `json:"fleeting,omitempty"`
	// Page, if set, is a series that the same target always has. It proves a later
	// scrape when no part is left.
	Page *Series `json:"page,omitempty"`
	// Lives, if set, is a series for each part of a histogram that exists, 0 while the part has
	// nothing to do. It is for pages that keep the histograms of parts that have ended. A part
	// without Label exists while the pod has any such series, and is idle while all of them are 0.
	Lives *Evidence `json:"-"`

	Idle   *Idle   `json:"idle,omitempty"`   // what NaN means
	Absent *Absent `json:"absent,omitempty"` // what a missing series means
}

// SourceLabel is the label under which a request's selector sees a series'
// Server, in addition to the series' own labels.
const SourceLabel = "gpuscale_source"

// Idle declares what NaN means: 0/0 where nothing happened in the window.
type Idle struct {
	Value float64 `json:"value"`
	// While are series that have to be 0 for the same pod in every scrape of
	// the window. The last scrape must be no older than MaxAge. Without any,
	// every NaN is Value.
	While []Series `json:"while,omitempty"`
	// Progress, if set, is a counter of finished work, such as tokens. If it grew
	// in the window while the first of While was 0, NaN is Value as well: requests
	// advance and none is pending.
	Progress *Series `json:"progress,omitempty"`
	// By are the labels besides the pod's that distinguish the series of While: each part of a pod is idle by itself.
	By []string `json:"by,omitempty"`
}

// Absent declares what a missing series means while its target is scraped.
type Absent struct {
	Value float64 `json:"value"`
	// While is a series that the same target always has.
	While Evidence `json:"while"`
}

// Evidence is a series that proves something about the source's.
type Evidence struct {
	Series
	// Is, if set, is the value that it must have ("up" and 1).
	Is *float64 `json:"is,omitempty"`
	// Label, if set, is the label of the source's series that has the value of its label From. A
	// request's selector matches the evidence by that label.
	Label string `json:"label,omitempty"`
	From  string `json:"from,omitempty"`
}

// Series selects series by name and labels.
type Series struct {
	Metric   string   `json:"metric"`
	Matchers Matchers `json:"matchers,omitempty"`
}

// Matchers select by labels.
type Matchers []Matcher

// Matcher is a label matcher as data, so that nothing is spliced into PromQL.
type Matcher struct {
	Label string `json:"label"`
	Op    string `json:"op"` // "=", "!=", "=~", "!~"
	Value string `json:"value"`
}

func (m Matcher) String() string { return fmt.Sprintf("%s%s%q", m.Label, m.Op, m.Value) }

var operators = map[string]labels.MatchType{
	"=": labels.MatchEqual, "!=": labels.MatchNotEqual, "=~": labels.MatchRegexp, "!~": labels.MatchNotRegexp,
}

func (m Matcher) promql() (*labels.Matcher, error) {
	op, ok := operators[m.Op]
	switch {
	case !ok:
		return nil, fmt.Errorf(`op: %q is not one of "=", "!=", "=~", "!~"`, m.Op)
	case m.Label == "" || m.Label == labels.MetricName:
		return nil, fmt.Errorf("label: %q cannot be matched", m.Label)
	}
	return labels.NewMatcher(op, m.Label, m.Value)
}

// promql returns the matchers of a valid rule.
func (ms Matchers) promql() (all []*labels.Matcher) {
	for _, m := range ms {
		if one, err := m.promql(); err == nil {
			all = append(all, one)
		}
	}
	return all
}

func (s Source) validate(p *problems) {
	r := p.rule
	if s.Form == PromQL { // its metric is the query's, which may be no PromQL
		err := checkPromQL(s.Query, r.Namespaces...)
		p.when(err != nil, "query", "%w", err)
		p.when(r.Subject == Exported, "query", `is for the subjects "target" and "namespace"`)
		return
	}
	p.metric("metric", s.Metric)
	p.matchers("matchers", s.Matchers)
	if s.Over != "" {
		p.metric("over", s.Over)
	}
	oneOf(p, "form", s.Form, Value, Rate, Quantile, Mean)
	p.when((s.Form == Rate || s.histogram()) && r.Window <= 0, "form", "%q needs the rule's window to be positive", string(s.Form))
	p.when(s.Form == Quantile && !(s.Quantile > 0 && s.Quantile < 1), "quantile", "%g is not between 0 and 1", s.Quantile)
	p.when(s.histogram() && s.Over != "", "over", "a histogram is divided by nothing")
	p.when(s.histogram() && len(s.Without) > 0, "without", "a histogram is summed by its identity")
	p.parts("without", s.Without)
	p.when(s.Scale != nil && *s.Scale == 0, "scale", "zero would hide every value")
	p.when(s.Rank() < 0, "tier", "must not be negative")
	p.parts("identity", s.Identity)
	if i := s.Idle; i != nil {
		p.within("idle.value", i.Value)
		p.parts("idle.by", i.By)
		for n, w := range i.While {
			p.series(fmt.Sprintf("idle.while[%d]", n), w)
		}
		if i.Progress != nil {
			p.series("idle.progress", *i.Progress)
			p.when(len(i.While) == 0 || r.Window == 0, "idle.progress", "needs a series of while, and the rule's window")
		}
	}
	if s.Page != nil {
		p.series("page", *s.Page)
	}
	if a := s.Absent; a != nil {
		p.within("absent.value", a.Value)
		p.series("absent.while", a.While.Series)
		p.when((a.While.Label == "") != (a.While.From == ""), "absent.while.label", "label and from go together")
		for _, l := range []string{a.While.Label, a.While.From} {
			p.when(slices.Contains([]string{labels.MetricName, PartLabel, namespaceLabel, podLabel}, l), "absent.while.label", "%q has a meaning of its own", l)
		}
	}
}

// Rank is the source's Tier, the first if unset.
func (s *Source) Rank() int {
	if s.Tier == nil {
		return 0
	}
	return *s.Tier
}

// histogram reports whether the source reads one.
func (s Source) histogram() bool { return s.Form == Quantile || s.Form == Mean }

// idleBy returns the values of Idle.By.
func (s *Source) idleBy(ls labels.Labels) string {
	if s.Idle == nil {
		return ""
	}
	return own(ls, s.Idle.By)
}

// Parts are the labels that distinguish this source's parts of a pod; nil
// means every label of the series' own.
func (s *Source) Parts(r *Rule) []string {
	if s.Identity != nil {
		return s.Identity
	}
	return r.Identity
}
