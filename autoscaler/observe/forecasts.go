package observe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/gangs"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/forecast"
)

// Ranger runs range queries; *prom.Client implements it.
type Ranger interface {
	Range(ctx context.Context, promql string, from, to time.Time, step time.Duration) ([]prom.Line, error)
}

// Series configures the signal from which a workload's demand is forecast.
type Series struct {
	Namespace string `json:"namespace"`
	// Kind is Deployment or StatefulSet; Name is the object's.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Query is PromQL with one series: queue depth, requests per second, or
	// replicas. PerReplica is how much of it one replica carries.
	Query      string  `json:"query"`
	PerReplica float64 `json:"perReplica"`
	// Horizon is how far ahead the forecast is; the time that a node takes to be ready is best. History is
	// how far back the series is read; Step is the time between values.
	Horizon metav1.Duration `json:"horizon"`
	History metav1.Duration `json:"history"`
	Step    metav1.Duration `json:"step"`
	// TimeZone is the IANA name of the time zone that the demand follows. Empty means that of the holidays, else UTC.
	TimeZone string `json:"timeZone"`
	// Zone is TimeZone, parsed.
	Zone *time.Location `json:"-"`
	// IgnoreHolidays is for demand that follows no holidays.
	IgnoreHolidays bool `json:"ignoreHolidays"`
	// Holidays are the days that the demand follows; nil for none.
	Holidays *forecast.Holidays `json:"-"`
}

func (s Series) key() string { return s.Namespace + "/" + s.Name }

// Outlook is a workload's forecast.
type Outlook struct {
	Series
	forecast.Forecast
}

// Outlooks queries the history and forecasts in the background, since that takes longer than a
// reconcile may. A forecast is as old as its newest value.
type Outlooks struct {
	ranger Ranger
	series []Series
	every  time.Duration
	log    *slog.Logger

	mu     sync.Mutex
	latest []Outlook // of each series, zero before the first
}

// NewOutlooks returns Outlooks over these series, which Run updates once per interval.
func NewOutlooks(r Ranger, series []Series, every time.Duration, log *slog.Logger) *Outlooks {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return &Outlooks{ranger: r, series: series, every: every, log: log, latest: make([]Outlook, len(series))}
}

// Run updates the forecasts until ctx ends. It always returns nil.
func (o *Outlooks) Run(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) { o.Once(ctx, time.Now()) }, o.every)
	return nil
}

// Once updates the forecast of each series at now.
func (o *Outlooks) Once(ctx context.Context, now time.Time) {
	for i, s := range o.series {
		found := o.ahead(ctx, s, now)
		if ctx.Err() != nil {
			return
		}
		o.mu.Lock()
		had := o.latest[i]
		o.latest[i] = found
		o.mu.Unlock()
		key := s.Kind + "/" + s.key()
		if found.off() && !had.off() {
			o.log.Info("forecast for a holiday", "workload", key, "why", found.Why)
		}
		if !found.Enough && (had.Enough || found.Why != had.Why) {
			o.log.Warn("no forecast", "workload", key, "why", found.Why)
		}
	}
}

// off reports whether the forecast is for a holiday.
func (o Outlook) off() bool { return o.Method == forecast.Holiday || o.Method == forecast.Weekend }

// ahead makes one Outlook. A failure is its Reason and Why.
func (o *Outlooks) ahead(ctx context.Context, s Series, now time.Time) Outlook {
	horizon := s.Horizon.Duration
	none := func(format string, args ...any) Outlook {
		return Outlook{s, forecast.Forecast{At: now.Add(horizon), Horizon: horizon, Reason: forecast.NoData, Why: fmt.Sprintf(format, args...)}}
	}
	lines, err := o.ranger.Range(ctx, s.Query, now.Add(-s.History.Duration), now, s.Step.Duration)
	switch {
	case err != nil:
		return none("Prometheus does not answer: %v", err)
	case len(lines) == 0:
		return none("the query has no series: %s", s.Query)
	case len(lines) > 1:
		return none("the query has %d series, want one: put sum() around it: %s", len(lines), s.Query)
	}
	points := make([]sample.Point, len(lines[0].Points))
	for i, p := range lines[0].Points {
		points[i] = sample.Point{At: p.Time, Number: p.Value}
	}
	return Outlook{s, forecast.Make(points, forecast.Query{Now: now, Horizons: []time.Duration{horizon}, Step: s.Step.Duration, Zone: s.Zone, Holidays: s.Holidays})[0]}
}

// Latest returns the latest forecasts in the order of the series; series without one are left out.
func (o *Outlooks) Latest() []Outlook {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(o.latest), func(l Outlook) bool { return l.At.IsZero() })
}

// replicas writes the forecast replicas into f: low, expected and high, and the mean error as a share. unsure is the
// reason why there are none.
func (o Outlook) replicas(f *plan.Forecast, now time.Time) (unsure string) {
	switch {
	case !o.Enough:
		return o.Why
	case !(o.PerReplica > 0) || math.IsInf(o.PerReplica, 0):
		return fmt.Sprintf("perReplica must be a number above 0: %g", o.PerReplica)
	case !o.At.After(now):
		return "the next forecast is overdue: Prometheus has not answered since the last one"
	}
	var all [4]float64
	for i, v := range []sample.Value{o.Low, o.Expected, o.High, o.Error.MAPE} {
		n, known := v.Get()
		if !known || n < 0 {
			return "the forecast has no range or error, so it cannot be relied on"
		}
		all[i] = n
	}
	f.Low, f.Expected, f.High, f.Error = all[0]/o.PerReplica, all[1]/o.PerReplica, all[2]/o.PerReplica, all[3]
	return ""
}

// expect adds forecasts to a Snapshot. The shape of one replica is read from its workload, their
// number from the pods.
func (c *cluster) expect(outlooks []Outlook, pods []plan.Pod) ([]plan.Forecast, error) {
	var out []plan.Forecast
	var wrong []string
	seen := map[string]bool{}
	for _, o := range outlooks {
		found := c.workload(o.Series)
		switch {
		case found == nil:
			wrong = append(wrong, fmt.Sprintf("there is no %s %s", o.Kind, o.key()))
			continue
		case seen[o.key()]:
			wrong = append(wrong, fmt.Sprintf("%s has two forecasts", o.key()))
			continue
		}
		seen[o.key()] = true
		like, made := c.template(o.Namespace, &found.Maker.Roles[0].Template)
		if like.Demand.Zero() {
			wrong = append(wrong, fmt.Sprintf("%s %s requests no GPU", o.Kind, o.key()))
			continue
		}
		like.Namespace, like.Name, like.Owner = o.Namespace, o.Series.Name, o.Kind+"/"+o.Series.Name
		like.Created, like.PendingSince, like.Evictable = c.now, c.now, true
		like.Groups = c.rules.in(like.Namespace, made.Labels)
		object := gangs.Pod{Pod: made, Plan: &like}
		like.Tenant = cmp.Or(c.ledger.Refuse([]gangs.Pod{object}, nil)[0], c.tenant(&object))
		f := plan.Forecast{Name: o.key(), Like: like, Have: have(pods, o), At: o.At}
		f.Unsure = o.replicas(&f, c.now)
		out = append(out, f)
	}
	if len(wrong) > 0 {
		return out, fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return out, nil
}

// workload returns the object of a series, nil if it does not exist or is unreadable.
func (c *cluster) workload(s Series) *foreign.Object {
	o := c.foreign.Maker(foreign.Scalable[s.Kind].Of(s.Namespace, s.Name))
	if o == nil || len(o.Maker.Roles) != 1 {
		return nil
	}
	return o
}

// have counts the replicas that exist or are to be created.
func have(pods []plan.Pod, o Outlook) int {
	n := 0
	for i := range pods {
		if p := &pods[i]; p.Namespace == o.Namespace && p.Owner == o.Kind+"/"+o.Series.Name && !p.Leaving {
			n++
		}
	}
	return n
}
