package signal

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Subject says whom a series speaks about, and so which of its labels name the
// pod.
type Subject string

// Subjects.
const (
	// Holder: the series names another pod than the one scraped, as a GPU
	// exporter's does. Without honor_labels Prometheus moves those labels to
	// exported_namespace and exported_pod, which are therefore preferred.
	Holder Subject = "holder"
	// Target: the series speaks about the pod it was scraped from.
	Target Subject = "target"
	// Namespace: the series belongs to a namespace and to no pod. It is served
	// as an external metric only.
	Namespace Subject = "namespace"
)

// Rule declares one signal. Rules are read-only once in use.
type Rule struct {
	Name string
	// Sources in order of preference: the first one that has a usable value
	// for a pod is the only one used for it, except that sources of one Tier
	// are taken together.
	Sources []Source
	Subject Subject
	// Identity are the labels that tell apart the real parts of a pod (its
	// cards, its engines). Series equal in these are duplicates of one thing:
	// two scrape jobs, two Prometheus replicas, an old and a new name.
	Identity []string

	Duplicates  Aggregation // over duplicates
	PerPod      Aggregation // over the parts of a pod
	PerWorkload Aggregation // over pods, and over what an external selector matches

	// Minimum and Maximum bound what is believable; anything else is missing.
	Minimum, Maximum float64
	// MaxAge is the age beyond which a sample is missing.
	MaxAge time.Duration
	// Window over which the value was computed; zero for instantaneous ones.
	Window time.Duration
}

// Source is one PromQL vector a rule reads.
type Source struct {
	Metric string
	// Over, if set, divides Metric by this series of the same labels.
	Over string
	// Matchers narrow both series.
	Matchers []*labels.Matcher
	// Scale multiplies the value; zero means 1.
	Scale float64
	Tier  int
}

// ruleName is what a path segment, a metric label and an HPA manifest all take.
var ruleName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_:.-]{0,127}$`)

// Validate returns all problems with their field paths.
func (r Rule) Validate() error {
	var errs []error
	check := func(field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		}
	}
	if !ruleName.MatchString(r.Name) {
		check("name", fmt.Errorf("%q does not match %s", r.Name, ruleName))
	}
	switch r.Subject {
	case Holder, Target, Namespace:
	default:
		check("subject", fmt.Errorf(`%q is not one of "holder", "target", "namespace"`, string(r.Subject)))
	}
	check("duplicates", r.Duplicates.validate())
	check("perPod", r.PerPod.validate())
	check("perWorkload", r.PerWorkload.validate())
	if !(r.Minimum < r.Maximum) || r.Maximum > MaxValue || r.Minimum < -MaxValue {
		check("maximum", fmt.Errorf("[%g, %g] is no range within ±%g", r.Minimum, r.Maximum, float64(MaxValue)))
	}
	if r.MaxAge <= 0 {
		check("maxAge", errors.New("must be positive"))
	}
	if r.Window < 0 {
		check("window", errors.New("must not be negative"))
	}
	if len(r.Sources) == 0 {
		check("sources", errors.New("at least one is needed"))
	}
	for i, s := range r.Sources {
		check(fmt.Sprintf("sources[%d].metric", i), metricName(s.Metric))
		if s.Over != "" {
			check(fmt.Sprintf("sources[%d].over", i), metricName(s.Over))
		}
	}
	return errors.Join(errs...)
}

func metricName(name string) error {
	if !model.UTF8Validation.IsValidMetricName(name) {
		return fmt.Errorf("%q is no metric name", name)
	}
	return nil
}
