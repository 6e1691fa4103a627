package signal

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscale/gpuscale/gpu/trust"
)

// Subject is what a series is about, and so which of its labels name the pod.
type Subject string

// Subjects.
const (
	// Exported: the series names another pod than the one scraped, as a GPU
	// exporter's does. Without honor_labels Prometheus moves those labels to
	// exported_namespace and exported_pod, which are therefore preferred.
	Exported Subject = "exported"
	// Target: the series is about the pod it was scraped from.
	Target Subject = "target"
	// Namespace: the series belongs to a namespace and to no pod. It is served
	// as an external metric only.
	Namespace Subject = "namespace"
)

// Rule declares one signal. Rules are read-only once in use. Fields with a JSON tag
// have this form in a configuration file; the others have another form there.
type Rule struct {
	Name string `json:"name"`
	// Backend is the name of a configured backend; "" is the default one.
	Backend string `json:"backend,omitempty"`
	// Sources in order of preference. For each pod the first Tier with a usable
	// value is used; sources of one Tier are combined.
	Sources []Source `json:"sources"`
	Subject Subject  `json:"subject"`
	// Namespaces are those that a query without [NamespacesVariable] is for. Each gets the
	// query's one number as an external metric, whichever namespace its series are in.
	Namespaces []string `json:"namespaces,omitempty"`
	Labels     Labels   `json:"labels,omitempty"` // not for Exported
	// Exporters are the namespaces whose targets may report pods of other
	// namespaces; nil trusts every target. See [Rule.key].
	Exporters trust.Exporters `json:"-"`
	// Identity are the labels that distinguish the real parts of a pod (its
	// GPUs, its engines). Series equal in these are duplicates of one part:
	// two scrape jobs, two Prometheus replicas, an old and a new name. Nil means
	// every label but those that scraping adds.
	Identity []string `json:"identity,omitempty"`

	Duplicates  Aggregation `json:"duplicates,omitempty"` // over duplicates
	PerPod      Aggregation `json:"perPod"`               // over the parts of a pod
	PerWorkload Aggregation `json:"perWorkload"`          // over pods, and over the series an external selector matches

	// Minimum and Maximum bound plausible values; any other is missing.
	Minimum float64 `json:"minimum,omitempty"`
	Maximum float64 `json:"maximum,omitempty"`
	// MaxAge is the age beyond which a sample is missing.
	MaxAge time.Duration `json:"maxAge,omitempty"`
	// Follow, if positive, raises that age for long scrape intervals: to two and
	// a half intervals plus Follow, at most Lookback, if that is longer than
	// MaxAge.
	Follow time.Duration `json:"-"`
	// Window of rates and quantiles; zero if there are none.
	Window time.Duration `json:"window,omitempty"`
	// Wide, if longer than Window, is the window where Window holds fewer than the two
	// scrapes that a rate needs.
	Wide time.Duration `json:"wide,omitempty"`

	// AtZero is the value for a workload scaled to zero: its scale has spec.replicas and
	// status.replicas 0. Having no pods is not enough, since all may have been evicted a
	// moment ago. Nil: none, as for every average.
	AtZero *float64 `json:"atZero,omitempty"`
	// Activation, if positive, makes every external answer up to it 0, so that
	// a trickle does not activate a workload scaled to zero.
	Activation float64 `json:"activation,omitempty"`
}

// Labels hold the pod that a series is about, and its namespace.
type Labels struct {
	Pod       string `json:"pod,omitempty"`       // "pod" if unset
	Namespace string `json:"namespace,omitempty"` // "namespace" if unset
}

// ruleName is valid as a path segment, a metric label and in an HPA manifest.
var ruleName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_:.-]{0,127}$`)

// Validate returns all problems with their field paths.
func (r Rule) Validate() error {
	p := &problems{rule: r}
	p.when(!ruleName.MatchString(r.Name), "name", "%q does not match %s", r.Name, ruleName)
	oneOf(p, "subject", r.Subject, Exported, Target, Namespace)
	p.when(!ownLabel(r.pod()), "labels.pod", "%q is not a label name", r.pod())
	p.when(!ownLabel(r.namespace()), "labels.namespace", "%q is not a label name", r.namespace())
	p.when(len(r.Namespaces) > 0 && (len(r.Sources) != 1 || r.Sources[0].Form != PromQL), "namespaces", "are for a query")
	for i, n := range r.Namespaces {
		wrong := validation.IsDNS1123Label(n)
		p.when(len(wrong) > 0, fmt.Sprintf("namespaces[%d]", i), "%q: %s", n, strings.Join(wrong, ", "))
	}
	p.when(r.Subject == Exported && r.Labels != (Labels{}), "labels", `are for the subjects "target" and "namespace"`)
	oneOf(p, "duplicates", r.Duplicates, Sum, Average, Max, Min)
	oneOf(p, "perPod", r.PerPod, Sum, Average, Max, Min)
	oneOf(p, "perWorkload", r.PerWorkload, Sum, Average, Max, Min)
	p.when(!(r.Minimum < r.Maximum) || r.Maximum > MaxValue || r.Minimum < -MaxValue, "maximum", "[%g, %g] is not a range within ±%g", r.Minimum, r.Maximum, float64(MaxValue))
	p.when(r.MaxAge <= 0, "maxAge", "must be positive")
	p.when(r.Window < 0 || r.Window > 0 && r.Window < time.Second, "window", "must be zero or at least a second")
	p.when(r.Wide < 0, "wide", "must not be negative")
	p.parts("identity", r.Identity)
	if r.AtZero != nil {
		p.within("atZero", *r.AtZero)
	}
	p.when(!(r.Activation >= 0 && r.Activation <= MaxValue), "activation", "%g is not between 0 and %g", r.Activation, float64(MaxValue))
	p.when(len(r.Sources) == 0 || len(r.Sources) > maxSources, "sources", "there are %d, not 1 to %d", len(r.Sources), maxSources)
	for i, s := range r.Sources {
		if p.below = fmt.Sprintf("sources[%d].", i); s.Form == PromQL { // a query stands beside the rule's name
			p.below = ""
		}
		s.validate(p)
	}
	return errors.Join(p.found...)
}

// maxSources bounds the query one rule can become.
const maxSources = 64

// problems are what is wrong with a rule's fields.
type problems struct {
	rule  Rule
	below string // the path of the fields that follow
	found []error
}

func (p *problems) when(wrong bool, field, format string, args ...any) {
	if wrong {
		p.found = append(p.found, fmt.Errorf("%s%s: %w", p.below, field, fmt.Errorf(format, args...)))
	}
}

func oneOf[T ~string](p *problems, field string, value T, known ...T) {
	var words []string
	for _, k := range known {
		words = append(words, strconv.Quote(string(k)))
	}
	p.when(!slices.Contains(known, value), field, "%q is not one of %s", string(value), strings.Join(words, ", "))
}

// within checks that a declared value is within the rule's own range.
func (p *problems) within(field string, v float64) {
	p.when(!(v >= p.rule.Minimum && v <= p.rule.Maximum), field, "%g is not within the rule's own range [%g, %g]", v, p.rule.Minimum, p.rule.Maximum)
}

func (p *problems) metric(field, name string) {
	p.when(!model.UTF8Validation.IsValidMetricName(name), field, "%q is not a metric name", name)
}

// parts checks labels that distinguish the parts of a pod.
func (p *problems) parts(field string, names []string) {
	for i, name := range names {
		p.when(!ownLabel(name) || name == model.BucketLabel, fmt.Sprintf("%s[%d]", field, i), "%q does not distinguish parts of a pod", name)
	}
}

func (p *problems) matchers(field string, all Matchers) {
	for i, m := range all {
		_, err := m.promql()
		p.when(err != nil, fmt.Sprintf("%s[%d]", field, i), "%w", err)
	}
}

func (p *problems) series(field string, s Series) {
	p.metric(field+".metric", s.Metric)
	p.matchers(field+".matchers", s.Matchers)
}

// ownLabel reports whether a series may have a label of that name, of its own.
func ownLabel(name string) bool {
	return model.UTF8Validation.IsValidLabelName(name) && name != model.MetricNameLabel && name != PartLabel
}
