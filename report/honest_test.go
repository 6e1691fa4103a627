package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	promvalue "github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/render"
)

// two is a cluster of two GPUs on one node, observed for an hour.
func two(name string, p *Prometheus) *Cluster {
	c := newCluster(storyEnd.Add(-time.Hour), time.Minute)
	c.Name = name
	if p != nil {
		c.Prometheus = p
	}
	c.Nodes = []*Node{{Name: "n1", Pool: "pool-" + name, Model: "NVIDIA H100 80GB HBM3", GPUs: []*GPU{{UUID: "GPU-1-" + name}, {UUID: "GPU-2-" + name}}}}
	c.Holds["GPU-1-"+name] = Hold{Tenant: "research", Namespace: "train", Pod: "job-0", Busy: 0.5}
	return until(c)
}

func since(t *testing.T, length time.Duration) query.Window {
	t.Helper()
	w, err := query.NewWindow(storyEnd, length)
	require.NoError(t, err)
	return w
}

// TestSeveralClusters: with two clusters in one Prometheus the error names the flag that selects one; then only that
// cluster is counted.
func TestSeveralClusters(t *testing.T) {
	p := two("west", two("east", nil).Prometheus).Prometheus
	_, err := query.Run(t.Context(), p, since(t, time.Hour), query.Options{})
	var several *query.ClustersError
	if !errors.As(err, &several) || strings.Join(several.Names, " ") != "east west" {
		t.Fatalf("%v, want both clusters named", err)
	}
	if err := advise(err); exitCode(err) != exitUsage || !strings.Contains(err.Error(), `--match 'cluster="east"'`) {
		t.Errorf("exit %d: %v", exitCode(err), err)
	}
	for match, want := range map[string]int{"": exitUsage, `cluster="west"`: 0} {
		var out bytes.Buffer
		if err := (topOptions{form: "table", out: &out, source: source{match: match}}).once(t.Context(), &looks{Prometheus: p}, false); exitCode(err) != want {
			t.Errorf("top of %q: %v\n%s", match, err, &out)
		}
	}
	a, err := query.Run(t.Context(), p, since(t, time.Hour), query.Options{Match: `cluster="west"`})
	require.NoError(t, err)
	r := model.Make(model.Input{Answers: a})
	if v := r.Hours.GPUs.Or(0); math.Abs(v-2) > 0.05 {
		t.Errorf("%v GPUs, want those of one cluster", v)
	}
}

// TestQuality: section 0 names what is wrong with the data. The exit code shows it where figures are unreliable.
func TestQuality(t *testing.T) {
	for _, c := range []struct {
		name   string
		since  time.Duration
		change func(*query.Answers)
		grade  string
		exit3  bool
		says   string
	}{
		{"in order", 30 * time.Minute, func(*query.Answers) {}, "good", false, ""},
		{"a window longer than the retention: the mean GPUs are those of the time with a record", 10 * time.Hour, func(*query.Answers) {}, "poor", true, "had 2 GPUs on average (in the 1 hour with a record)"},
		{"places that exceed the capacity", 30 * time.Minute, func(a *query.Answers) {
			for _, l := range a.Lines[query.Places] {
				for i := range l.Points {
					l.Points[i].Value *= 1.05
				}
			}
		}, "poor", true, "the places add up to 5.0 % more than the capacity"},
		{"a UUID that two nodes export", 30 * time.Minute, func(a *query.Answers) {
			a.Vectors[query.Devices] = append(a.Vectors[query.Devices], a.Vectors[query.Devices][0])
		}, "fair", false, "1 UUID is exported by two nodes, or as two models, such as GPU-1-:"},
		{"targets in two namespaces, of which one may be a tenant's", 30 * time.Minute, func(a *query.Answers) {
			a.Targets = append(a.Targets, "tenant")
		}, "good", false, "in 2 namespaces (gpuscale-system, tenant)"},
	} {
		a := answered(t, two("", nil).Prometheus, c.since)
		c.change(&a)
		r := model.Make(model.Input{Answers: a})
		if q := r.Answer.Quality; q.Grade != c.grade || r.Incomplete() != c.exit3 || !strings.Contains(words(r), c.says) {
			t.Errorf("%s: %s, exit code 3 %v: %s\n%+v", c.name, q.Grade, r.Incomplete(), r.Answer.Text, q)
		}
	}
}

// TestScaledToZero: an autoscaler without GPUs has a record, also where it is restarted meanwhile: that there are none,
// and which demand is unserved.
func TestScaledToZero(t *testing.T) {
	for _, gpus := range []float64{0, 2} { // until half of the hour is over
		c := newCluster(storyEnd.Add(-70*time.Minute), time.Minute)
		c.NoExporter = true
		if gpus > 0 {
			c.Nodes = []*Node{whole("n1", "p", modelH, 2)}
		}
		c.Extra = func() ([]Exposed, map[string][]Exposed) {
			return []Exposed{exposed(metric.AutoscalerLeader.Name, 1), exposed(metric.AutoscalerPendingGPUs.Name, 4, metric.LabelShape, "4", metric.LabelReason, "PoolAtMax")}, nil
		}
		until(c, func() {
			switch left := storyEnd.Sub(c.Now); left {
			case 30 * time.Minute:
				c.Nodes = nil
			case 20 * time.Minute:
				c.RestartAutoscaler()
			}
		})
		r := made(t, c.Prometheus, time.Hour)
		near(t, "percent of the hour with a record", 100*r.Answer.Quality.Coverage.Or(0), 100, 9) // of twelve steps the one with the restart
		near(t, "GPU-hours", r.Hours.Capacity.Or(0), gpus/2, 0.1)
		near(t, "unknown GPU-hours", r.Hours.Places[5].Hours.Or(0), 0, 0.1)
		near(t, "GPU-hours pending", r.Demand.Unmet[0].Hours.Or(0), 4, 0.1)
		if !strings.Contains(r.Answer.Text, "Pending pods requested 4 GPU-hours and did not get them.") {
			t.Errorf("the answer does not say what is pending: %s", r.Answer.Text)
		}
	}
}

// TestSavingsAreOfTheRecord: what nodes at a pool's minimum cost is not known of the time without a record.
func TestSavingsAreOfTheRecord(t *testing.T) {
	c := newCluster(storyEnd.Add(-time.Hour), time.Minute)
	c.Nodes = []*Node{whole("n1", "p", modelH, 2)}
	c.Extra = func() (own []Exposed, _ map[string][]Exposed) {
		for _, kind := range []string{"size", "min", "max"} {
			own = append(own, exposed(metric.AutoscalerPoolSize.Name, 1, metric.LabelPool, "p", metric.LabelKind, kind))
		}
		return append(own, exposed(metric.AutoscalerGPUs.Name, 2, metric.LabelPool, "p", metric.LabelModel, "H100-80GB", metric.LabelState, "free")), nil
	}
	r := made(t, until(c).Prometheus, 10*time.Hour)
	if len(r.Actions) != 1 || r.Actions[0].Kind != "shrink-pool" {
		t.Fatalf("%+v, want the pool's minimum to be lowered", r.Actions)
	}
	near(t, "GPU-hours saved", r.Actions[0].Hours.Or(0), 2, 0.1)
	v, err := c.Prometheus.Query(t.Context(), r.Actions[0].Query, r.Window.Until)
	require.NoError(t, err)
	near(t, "GPU-hours by the query", v[0].Value, r.Actions[0].Hours.Or(0), 1e-6)
}

// TestShortLives: with long steps, counters of servers that live for 40 minutes are counted whole. So are those of
// exporters whose nodes are replaced ten minutes after an XID, and an XID counts again after each reboot. Counts from
// before the first scrape are not in the window.
func TestShortLives(t *testing.T) {
	const length, every = 8 * 24 * time.Hour, 2 * time.Minute
	c := newCluster(storyEnd.Add(-length), every)
	c.NoAutoscaler = true
	old, reboots := whole("old", "p", modelH, 1), whole("reboots", "p", modelH, 1)
	old.GPUs[0].XIDs = map[string]float64{"79": 50}
	var written, all, broken float64
	c.Extra = func() ([]Exposed, map[string][]Exposed) {
		pod := fmt.Sprintf("chat/vllm-%d", c.Now.Unix()/2400)
		return nil, map[string][]Exposed{pod: {exposed(metric.VLLMGenerationTokens.Name, written, metric.LabelModelName, "m")}}
	}
	until(c, func() {
		at := c.Now.Add(every).Unix() // of the scrape
		if written += 1000; at%2400 == 0 {
			written = 0
		}
		all += min(written, 1000)
		c.Nodes = []*Node{old, reboots}
		since := at % (5 * 3600)
		if reboots.GPUs[0].XIDs = nil; since >= 7200 && since < 9000 {
			reboots.GPUs[0].XIDs = map[string]float64{"79": 1}
		}
		if since < 1200 {
			sick := whole(fmt.Sprintf("sick-%d", at/(5*3600)), "p", modelH, 1)
			if c.Nodes = append(c.Nodes, sick); since >= 600 {
				sick.GPUs[0].XIDs = map[string]float64{"79": 1}
			}
		}
		if since == 600 || since == 7200 {
			broken++
		}
	})
	r := made(t, c.Prometheus, length)
	if got := r.Use.Serving[0].Tokens.Or(0); math.Abs(got-all) > 0.02*all {
		t.Errorf("%.0f tokens, want %.0f", got, all)
	}
	xids := 0.0
	for _, x := range r.Reliability.XIDs {
		xids += x.Count.Or(0)
	}
	if xids != broken {
		t.Errorf("%.0f XIDs, want %.0f", xids, broken)
	}
}

// TestUnmeasuredUse: if no allocated GPU, or only a few of them, have a measured use, as where profiling counters
// cannot be read, the report states so, and no place of use is 0.
func TestUnmeasuredUse(t *testing.T) {
	for _, c := range []struct {
		name     string
		exporter bool
		measured []string // the GPUs whose use is known
		place    string
	}{
		{"the exporter's series", true, nil, "Computing|n/a|n/a|"},
		{"the autoscaler's counters", false, nil, "Computing|n/a|n/a|"},
		{"some of them", true, []string{"GPU-3/1"}, "Computing|0.11"},
	} {
		cluster := small()
		cluster.NoAutoscaler, cluster.NoExporter = c.exporter, !c.exporter
		for id, hold := range cluster.Holds {
			hold.Unmeasured = !slices.Contains(c.measured, id)
			cluster.Holds[id] = hold
		}
		cluster.Extra = func() ([]Exposed, map[string][]Exposed) {
			return []Exposed{exposed(metric.AutoscalerPoolSize.Name, 1, metric.LabelPool, "whole", metric.LabelKind, "size")}, nil
		}
		begin(cluster)
		hours(cluster, 1)
		w, err := query.NewWindow(cluster.Now, 30*time.Minute)
		require.NoError(t, err)
		a, err := query.Run(t.Context(), cluster.Prometheus, w, query.Options{})
		require.NoError(t, err)
		r := model.Make(model.Input{Answers: a})
		if v, known := r.Answer.Figures[1].Value.Get(); known {
			t.Errorf("%s: of all hours %v computed, want unknown", c.name, v)
		}
		if page := words(r); !strings.Contains(page, "How much pods computed on the GPUs is not known; 52.3 % were not allocated.") || !strings.Contains(page, c.place) {
			t.Errorf("%s, want %q in\n%s", c.name, c.place, page)
		}
		if cluster.NoAutoscaler != (len(r.Pools) == 0) {
			t.Errorf("%s: %d pools", c.name, len(r.Pools))
		}
		for _, p := range r.Pools {
			if v, known := p.Used.Get(); known {
				t.Errorf("%s: pool %s computed %v, want unknown", c.name, p.Pool, v)
			}
		}
	}
}

// answersOver are what some series answer to the queries of one source.
func answersOver(t *testing.T, series memstore.Series, w query.Window, source query.Source) query.Answers {
	t.Helper()
	p := memstore.Over(series)
	a := query.Answers{Window: w, Autoscaler: source == query.FromAutoscaler, Servers: source == query.FromServers, Lines: map[query.ID][]prom.Line{}, Vectors: map[query.ID]prom.Vector{}}
	for _, ask := range a.Dialect.Asks(w, source) {
		var err error
		if ask.Kind == query.Now {
			a.Vectors[ask.ID], err = p.Query(t.Context(), ask.PromQL, w.Until)
		} else {
			a.Lines[ask.ID], err = p.Range(t.Context(), ask.PromQL, w.From, w.Until, w.Coarse)
		}
		if err != nil {
			t.Fatal(ask.ID, err)
		}
	}
	return a
}

// TestLoadsByTheClock: in a long window, too, a pod that computes in the first ten minutes of each hour computes in a
// sixth of its time, and one that exists for the first half of each hour exists for half of the time.
func TestLoadsByTheClock(t *testing.T) {
	w := since(t, 40*24*time.Hour)
	var all memstore.Series
	add := func(value func(time.Time) float64, name string, pairs ...string) {
		one := promql.Series{Metric: labels.FromStrings(append([]string{labels.MetricName, name, "node", "n1"}, pairs...)...)}
		for at := w.From.Add(-time.Hour); !at.After(w.Until); at = at.Add(time.Minute) {
			v := value(at)
			if math.IsNaN(v) {
				v = math.Float64frombits(promvalue.StaleNaN)
			}
			one.Floats = append(one.Floats, memstore.At(at, v))
		}
		all = append(all, promql.NewStorageSeries(one))
	}
	constant := func(v float64) func(time.Time) float64 { return func(time.Time) float64 { return v } }
	add(constant(1), metric.GPUAttributionAgeSeconds.Name)
	for _, uuid := range []string{"GPU-1", "GPU-2"} {
		add(constant(1), metric.GPUInfo.Name, "gpu_uuid", uuid, "model", modelH)
	}
	add(constant(1), metric.GPUHeld.Name, "gpu_uuid", "GPU-1", "namespace", "batch", "pod", "hourly-0", "container", "c")
	add(func(at time.Time) float64 { // seconds computed since 1970
		return 600*float64(at.Unix()/3600) + min(600, float64(at.Unix()%3600))
	}, metric.GPUBusySecondsTotal.Name, "gpu_uuid", "GPU-1")
	add(func(at time.Time) float64 {
		if at.Minute() > 0 && at.Minute() <= 30 {
			return 1
		}
		return math.NaN()
	}, metric.GPUHeld.Name, "gpu_uuid", "GPU-2", "namespace", "cron", "pod", "half-0", "container", "c")
	a, err := query.Run(t.Context(), memstore.Over(all), w, query.Options{})
	require.NoError(t, err)
	hours := a.Window.Length().Hours()
	for _, row := range model.Make(model.Input{Answers: a}).Use.Rows {
		switch row.Namespace {
		case "batch":
			near(t, "hours that it computes", row.Used.Or(0), hours/6, 0.01*hours)
		case "cron":
			near(t, "hours that it is there", row.Allocated.Or(0), hours/2, 0.01*hours)
		}
	}
}

// TestGonePods: what is no longer allocated is reported in the past tense, and no action stops a workload that is gone
// or computes again. Two pods that shared a GPU had half of it each.
func TestGonePods(t *testing.T) {
	for _, now := range []string{"gone", "computes"} {
		c := newCluster(storyEnd.Add(-3*time.Hour), time.Minute)
		c.Nodes = []*Node{{Name: "n1", Pool: "p", Model: "NVIDIA H100 80GB HBM3", GPUs: []*GPU{{UUID: "GPU-1"}}}}
		anna := Hold{Tenant: "t", Namespace: "notebooks", Pod: "anna-0"}
		c.Holds["GPU-1"] = anna
		other := []string{"node", "n1", "gpu", "0", "gpu_uuid", "GPU-1", "namespace", "notebooks", "pod", "bert-0", "container", "main"}
		both := []Exposed{exposed(metric.GPUHeld.Name, 1, other...), exposed(metric.GPUIdleSeconds.Name, 9000, other...)}
		c.Extra = func() ([]Exposed, map[string][]Exposed) { return nil, map[string][]Exposed{"notebooks/x": both} }
		until(c, func() {
			switch {
			case c.Now.Before(storyEnd.Add(-time.Hour)):
			case now == "gone":
				both = nil
				clear(c.Holds)
			default:
				both, anna.Busy = both[:1], 0.5
				c.Holds["GPU-1"] = anna
			}
		})
		hours := 0.0
		for _, a := range made(t, c.Prometheus, 2*time.Hour).Actions {
			if a.Kind == "reclaim" {
				if !strings.HasPrefix(a.Title, "Find out why") || strings.Contains(a.Patch, "computes now") != (now == "computes") || a.Confidence != "low" || strings.Contains(a.Patch, "scale") {
					t.Errorf("%+v", a)
				}
				hours += a.Hours.Or(0)
			}
		}
		near(t, "idle hours of the notebooks", hours, 1, 0.2)
	}
}

// TestGoneNodes: of a node with a sick GPU that was removed since there is nothing to do, and its GPUs are not healthy.
func TestGoneNodes(t *testing.T) {
	c := newCluster(storyEnd.Add(-time.Hour), time.Minute)
	c.NoAutoscaler = true
	sick := whole("sick", "p", modelH, 1)
	sick.GPUs[0].Sick = true
	c.Nodes = []*Node{whole("n1", "p", modelH, 2), sick}
	r := made(t, until(c, func() {
		if storyEnd.Sub(c.Now) == 30*time.Minute {
			c.Nodes = c.Nodes[:1]
		}
	}).Prometheus, time.Hour)
	if len(r.Reliability.Nodes) != 1 || len(r.Actions) > 0 {
		t.Errorf("%+v, actions %+v, want the node and no action", r.Reliability.Nodes, r.Actions)
	}
}

// TestTwoJobs: two jobs scrape the same autoscaler, and its GPUs count once.
func TestTwoJobs(t *testing.T) {
	for name, second := range map[string]func(*labels.Builder){
		"without a pod":         func(b *labels.Builder) { b.Del("pod") },
		"with another instance": func(b *labels.Builder) { b.Set("instance", "10.0.0.1:1") },
	} {
		c := newCluster(storyEnd.Add(-time.Hour), time.Minute)
		c.NoExporter, c.Second = true, second
		c.Nodes = []*Node{whole("n1", "p", modelH, 2)}
		near(t, name, made(t, until(c).Prometheus, time.Hour).Hours.Capacity.Or(0), 2, 0.2)
	}
}

// TestGonePools: of a pool that does not exist any more nothing can be explained.
func TestGonePools(t *testing.T) {
	a, _ := answers() // TestGolden reports the error
	a.Lines = maps.Clone(a.Lines)
	a.Lines[query.PoolNodes] = slices.Clone(a.Lines[query.PoolNodes])
	for i, l := range a.Lines[query.PoolNodes] {
		a.Lines[query.PoolNodes][i].Points = l.Points[:len(l.Points)/2]
	}
	for _, action := range model.Make(golden(a)).Actions {
		if strings.Contains(action.Patch, "explain pool") {
			t.Errorf("%s: %s", action.Title, action.Patch)
		}
	}
}

// TestRightSizePatch: a patch is YAML, whatever the name of the workload is.
func TestRightSizePatch(t *testing.T) {
	a, _ := answers()
	a.Lines = maps.Clone(a.Lines)
	for _, id := range []query.ID{query.AllocatedTo, query.MemoryP99, query.UseP95, query.InstUseP95} {
		var lines []prom.Line
		for _, l := range a.Lines[id] {
			words := l.Labels.Map()
			words[a.Dialect.Pod()] = "x\n: ["
			lines = append(lines, prom.Line{Labels: prom.FromMap(words), Points: l.Points})
		}
		a.Lines[id] = lines
	}
	n := 0
	for _, action := range model.Make(golden(a)).Actions {
		if action.Kind != "right-size" {
			continue
		}
		n++
		var patch struct {
			Resources struct {
				Limits map[string]int `json:"limits"`
			} `json:"resources"`
		}
		if err := yaml.UnmarshalStrict([]byte(action.Patch), &patch); err != nil || len(patch.Resources.Limits) != 1 {
			t.Errorf("%v: %s", err, action.Patch)
		}
	}
	if n == 0 {
		t.Error("nothing is right-sized")
	}
}

// TestMaximaOfThePast: no action raises the maximum of an HPA that was raised since, that limited nothing, or that is
// gone.
func TestMaximaOfThePast(t *testing.T) {
	for name, change := range map[string]func(*query.Answers){
		"raised": func(a *query.Answers) {
			a.Vectors[query.HPAMax] = prom.Vector{{Labels: a.Vectors[query.HPAMax][0].Labels, Value: 9}}
		},
		"gone": func(a *query.Answers) { delete(a.Vectors, query.HPAMax) },
		"free": func(a *query.Answers) { delete(a.Lines, query.HPALimited) },
	} {
		a, _ := answers() // TestGolden reports the error
		a.Vectors, a.Lines = maps.Clone(a.Vectors), maps.Clone(a.Lines)
		change(&a)
		for _, action := range model.Make(golden(a)).Actions {
			if action.Kind == "raise-hpa" {
				t.Errorf("%s: %s", name, action.Patch)
			}
		}
	}
}

// TestBands: the 95 % band is never the narrower one, and the page draws both.
func TestBands(t *testing.T) {
	r := goldenReport(t)
	n := 0
	for _, o := range r.Forecast.Outlooks {
		for _, b := range o.Ahead {
			n++
			if b.Low95.Or(math.Inf(1)) > b.Low.Or(0) || b.High95.Or(-1) < b.High.Or(0) {
				t.Errorf("%s at %s: 80 %% %v to %v, 95 %% %v to %v", o.Of, b.At, b.Low, b.High, b.Low95, b.High95)
			}
		}
	}
	var page bytes.Buffer
	require.NoError(t, render.HTML(&page, r))
	if n == 0 || strings.Count(page.String(), `class="wide"`) == 0 || strings.Count(page.String(), `class="wide"`) != strings.Count(page.String(), `class="band"`) {
		t.Errorf("%d values ahead, %d wide bands", n, strings.Count(page.String(), `class="wide"`))
	}
}

// nan answers every instant query of a piece with NaN, except for the last piece but one.
type nan struct{ *Prometheus }

func (p nan) Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error) {
	if !strings.Contains(promql, "quantile_over_time(0.99") {
		return p.Prometheus.Query(ctx, promql, at)
	}
	v := prom.Vector{{Labels: prom.FromMap(map[string]string{"pod": "a"}), Value: math.NaN()}}
	if at.Equal(storyEnd.Add(-12 * time.Hour)) {
		v[0].Value = 7
	}
	return v, nil
}

// TestAPieceWithoutANumber: a piece without a number does not hide the others.
func TestAPieceWithoutANumber(t *testing.T) {
	a := answered(t, nan{two("", nil).Prometheus}, 60*time.Hour)
	if l := a.Lines[query.MemoryP99]; len(l) != 1 || l[0].Points[0].Value != 7 {
		t.Errorf("%+v, want 7", l)
	}
}

// TestNothingAtAll: a window without a GPU has no figures, and nothing is divided by zero.
func TestNothingAtAll(t *testing.T) {
	r := model.Make(model.Input{Answers: query.Answers{Window: since(t, time.Hour), Autoscaler: true, Exporter: true}})
	if _, known := r.Hours.GPUs.Get(); known || r.Answer.Text == "" || len(r.Actions) > 0 {
		t.Errorf("%+v: %s", r.Hours.GPUs, r.Answer.Text)
	}
}

// TestStyles: each class of the style sheet is used on a page.
func TestStyles(t *testing.T) {
	var pages bytes.Buffer
	for _, r := range []model.Report{goldenReport(t), alone(t), hostile(t), model.Make(model.Input{Answers: query.Answers{Window: since(t, time.Hour)}})} {
		require.NoError(t, render.HTML(&pages, r))
	}
	style, page, _ := strings.Cut(pages.String(), "</style>")
	used := map[string]bool{"fair": true, "p-unmeasured": true, "g-coming": true} // used by no report here
	for _, m := range regexp.MustCompile(`class="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		for _, c := range strings.Fields(m[1]) {
			used[c] = true
		}
	}
	for _, m := range regexp.MustCompile(`\.([a-zA-Z][\w-]*)`).FindAllStringSubmatch(style[strings.Index(style, "<style>"):], -1) {
		if !used[m[1]] {
			t.Errorf("the style has .%s, and no page does", m[1])
		}
	}
}

// TestManySeriesOfOneNamespace: a namespace whose pods expose thousands of series of
// tokens makes its own tokens unknown, and no other's.
func TestManySeriesOfOneNamespace(t *testing.T) {
	w := since(t, time.Hour)
	var series memstore.Series
	serve := func(namespace string, n int) {
		for i := range n {
			one := promql.Series{Metric: labels.FromStrings(labels.MetricName, metric.VLLMGenerationTokens.Name,
				metric.LabelNamespace, namespace, metric.LabelPod, fmt.Sprint("p", i), metric.LabelModelName, "m")}
			for at := w.From.Add(-time.Minute); !at.After(w.Until); at = at.Add(time.Minute) {
				one.Floats = append(one.Floats, memstore.At(at, at.Sub(w.From.Add(-time.Minute)).Minutes()))
			}
			series = append(series, promql.NewStorageSeries(one))
		}
	}
	serve("chat", 2)
	serve("loud", query.MostServing+1)
	a := answersOver(t, series, w, query.FromServers)
	for id, lines := range a.Lines {
		if len(lines) > 2 {
			t.Errorf("%s: %d series are read", id, len(lines))
		}
	}
	tokens := map[string]model.Number{}
	for _, s := range model.Make(model.Input{Answers: a}).Use.Serving {
		tokens[s.Namespace] = s.Tokens
	}
	if v, ok := tokens["chat"].Get(); !ok || math.Abs(v-120) > 1e-6 {
		t.Errorf("chat wrote %v tokens (%s), want 120", v, tokens["chat"].Why())
	}
	if why := tokens["loud"].Why(); why != "its servers have more than 2000 series of tokens" {
		t.Errorf("loud: %q", why)
	}
}

// TestTokensOfOnePod: counts that a server separates, by priority, by whether a request streams (SGLang's
// tokenizer_manager.py of 2026) or by replica under Ray, add up. Two Prometheus servers that scrape it do not. What
// SGLang's gateway repeats of it counts only where the servers are not scraped. A label that the
// scrape has renamed is the server's. Series with NIM's name and without a model are another program's.
func TestTokensOfOnePod(t *testing.T) {
	w := since(t, time.Hour)
	var series memstore.Series
	namespace, modelName := "chat", "m"
	serve := func(name string, more ...string) {
		one := promql.Series{Metric: labels.FromStrings(append([]string{labels.MetricName, name, metric.LabelNamespace, namespace, metric.LabelPod, "p", metric.LabelModelName, modelName}, more...)...).WithoutEmpty()}
		for at := w.From.Add(-time.Minute); !at.After(w.Until); at = at.Add(time.Minute) {
			one.Floats = append(one.Floats, memstore.At(at, at.Sub(w.From.Add(-time.Minute)).Minutes()))
		}
		series = append(series, promql.NewStorageSeries(one))
	}
	for _, server := range []string{"a", "b"} {
		serve(metric.SGLangGenerationTokens.Name, "is_streaming", "true", "priority", "", "prometheus_replica", server)
		serve(metric.SGLangGenerationTokens.Name, "is_streaming", "false", "priority", "", "prometheus_replica", server)
		serve(metric.SGLangGenerationTokens.Name, "is_streaming", "true", "priority", "5", "prometheus_replica", server)
		serve("ray_vllm_generation_tokens_total", "ReplicaId", "x", "WorkerId", "1", "prometheus_replica", server)
		serve("ray_vllm_generation_tokens_total", "ReplicaId", "y", "WorkerId", "2", "prometheus_replica", server)
	}
	serve("kserve_vllm:generation_tokens_total", "engine", "0")
	serve("sglang_generation_tokens_total", "worker_addr", "http://10.0.0.1:30000")
	namespace = "gateway"
	serve("sglang_generation_tokens_total", "worker_addr", "http://10.0.0.1:30000")
	serve("sglang_generation_tokens_total", "worker_addr", "http://10.0.0.2:30000")
	namespace, modelName = "renamed", "of-the-pod"
	serve("vllm:generation_tokens_total", "exported_model_name", "m", "engine", "v", "exported_engine", "0")
	serve("vllm:generation_tokens_total", "exported_model_name", "m", "engine", "v", "exported_engine", "1")
	serve("vllm:generation_tokens_total", "exported_model_name", "m", "engine", "v", "exported_engine", "2")
	modelName = ""
	serve("generation_tokens_total")
	a := answersOver(t, series, w, query.FromServers)
	var got []string
	for _, s := range model.Make(model.Input{Answers: a}).Use.Serving {
		got = append(got, fmt.Sprintf("%s %s %.0f", s.Namespace, s.Models, s.Tokens.Or(0)))
	}
	if want := []string{"chat m 360", "gateway m 120", "renamed m 180"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAnExpiredCertificateIsNoUnknownAuthority(t *testing.T) {
	err := advise(fmt.Errorf("%w: %w", prom.ErrUnavailable, x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time is after …"}))
	if !strings.Contains(err.Error(), "renew the server's certificate") || strings.Contains(err.Error(), "--ca-file") {
		t.Error(err)
	}
}
