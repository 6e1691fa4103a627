package collect

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

var start = time.Unix(1_800_000_000, 0)

// card is a card that computes at the given ratio, taken at a time.
func card(busy float64, taken time.Time) Entity {
	return Entity{Kind: GPU, UUID: "GPU-a", Model: "L40S", Values: []Value{
		{Field: fieldPowerWatts, Number: 100, Time: taken},
		{Field: fieldEngineActive, Number: busy, Time: taken},
	}}
}

func compiler() *Compiler {
	return NewCompiler(Options{Node: "n", Interval: time.Second, Compat: CompatOptions{
		Mode: CompatExact, Hostname: "n",
		Counters: []counters.Field{{ID: fieldPowerWatts, Name: "DCGM_FI_DEV_POWER_USAGE", Kind: counters.Gauge, Help: `a "quoted" help`}},
	}})
}

func text(p *Page, now time.Time) string {
	b, _ := p.Append(nil, now, false)
	return string(b)
}

func TestOldValuesVanish(t *testing.T) {
	e := card(0.5, start)
	e.Values[0].Time = start.Add(-2 * time.Second) // power lags behind
	page := compiler().Compile(&Reading{Taken: start, Entities: []Entity{e}}, Attribution{Taken: start})
	for _, c := range []struct {
		after        time.Duration
		power, ratio bool
	}{
		{0, true, true},
		{500 * time.Millisecond, true, true},
		{501 * time.Millisecond, false, true},
		{2500 * time.Millisecond, false, true},
		{2501 * time.Millisecond, false, false},
		{time.Hour, false, false},
	} {
		got := text(page, start.Add(c.after))
		if has := strings.Contains(got, "gpu_power_watts"); has != c.power {
			t.Errorf("after %s: power there: %v", c.after, has)
		}
		if has := strings.Contains(got, "DCGM_FI_DEV_POWER_USAGE"); has != c.power {
			t.Errorf("after %s: DCGM power there: %v", c.after, has)
		}
		if has := strings.Contains(got, "gpu_busy_ratio"); has != c.ratio {
			t.Errorf("after %s: ratio there: %v", c.after, has)
		}
		if !strings.Contains(got, "gpu_sample_age_seconds{") || !strings.Contains(got, "gpu_attribution_age_seconds{") {
			t.Errorf("after %s: the ages are gone, and they are what says so", c.after)
		}
	}
	_, count := page.Append(nil, start.Add(time.Hour), false)
	if count.Stale == 0 || count.Series != 2 {
		t.Errorf("count = %+v, want two ages and the rest stale", count)
	}
}

func TestClockBehindIsFresh(t *testing.T) {
	page := compiler().Compile(&Reading{Taken: start, Entities: []Entity{card(0.5, start.Add(time.Minute))}}, Attribution{})
	got := text(page, start)
	if !strings.Contains(got, "gpu_busy_ratio{") || !strings.Contains(got, `gpu_sample_age_seconds{node="n",gpu="0",gpu_uuid="GPU-a"} 0`) {
		t.Errorf("a host engine whose clock is ahead:\n%s", got)
	}
}

func TestOpenMetrics(t *testing.T) {
	e := card(0.5, start)
	e.Values = append(e.Values[:1:1], Value{Field: fieldEnergyMilli, Number: 1500, Time: start})
	c := compiler()
	c.opts.Compat.Counters = append(c.opts.Compat.Counters, counters.Field{ID: fieldEnergyMilli, Name: "DCGM_E", Kind: counters.Counter})
	b, _ := c.Compile(&Reading{Taken: start, Entities: []Entity{e}}, Attribution{}).Append(nil, start, true)
	for _, want := range []string{
		"# TYPE gpu_energy_joules counter\ngpu_energy_joules_total{",
		"# TYPE DCGM_E unknown\nDCGM_E{", // a _total would rename the series
		`# HELP DCGM_FI_DEV_POWER_USAGE a \"quoted\" help`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("lacks %q:\n%s", want, b)
		}
	}
}

func TestLabelsAreRenderedOnce(t *testing.T) {
	c := compiler()
	r := &Reading{Taken: start, Entities: []Entity{card(0.5, start)}}
	holders := func(pod string) Attribution {
		return Attribution{Taken: start, Holders: [][]Holder{{{"ns", pod, "c"}}}}
	}
	c.Compile(r, holders("p"))
	first := c.labels[identify(&r.Entities[0], Holder{"ns", "p", "c"}, extra{})]
	c.Compile(r, holders("p"))
	if again := c.labels[identify(&r.Entities[0], Holder{"ns", "p", "c"}, extra{})]; first == nil || again != first {
		t.Error("the label text of an unchanged entity was rendered again")
	}
	page := c.Compile(r, holders("q"))
	if !strings.Contains(text(page, start), `pod="q"`) || strings.Contains(text(page, start), `pod="p"`) {
		t.Error("a new holder does not show")
	}
	if len(c.labels) != 1 {
		t.Errorf("%d label sets kept, want the old holder's forgotten", len(c.labels))
	}
}

func TestIdle(t *testing.T) {
	tracker := idleTracker{maxGap: 2500 * time.Millisecond}
	held := Holder{"ns", "p", "c"}
	step := func(at time.Duration, busy float64, known bool, h Holder) time.Duration {
		e := Entity{Kind: GPU, UUID: "GPU-a"}
		s := subject{entity: &e, holder: h, busy: ratio{busy, start.Add(at), known}}
		tracker.observe(func(yield func(*subject) bool) {
			if h != (Holder{}) {
				yield(&s)
			}
		})
		return s.idle
	}
	for _, c := range []struct {
		at    time.Duration
		busy  float64
		known bool
		want  time.Duration
	}{
		{0, 0, true, 0},
		{time.Second, 0.005, true, time.Second},
		{2 * time.Second, 0, false, 0}, // unknown: says nothing, ends nothing
		{3 * time.Second, 0, true, 3 * time.Second},
		{4 * time.Second, 0.5, true, 0},
		{5 * time.Second, 0, true, 0},
		{20 * time.Second, 0, true, 0}, // nobody saw the gap
		{21 * time.Second, 0, true, time.Second},
	} {
		if got := step(c.at, c.busy, c.known, held); got != c.want {
			t.Errorf("at %s: idle %s, want %s", c.at, got, c.want)
		}
	}
	if got := step(22*time.Second, 0, true, Holder{"ns", "other", "c"}); got != 0 {
		t.Errorf("a new holder inherits %s", got)
	}
	if step(23*time.Second, 0, true, Holder{}); len(tracker.spans) != 0 {
		t.Error("a free card is remembered as idle")
	}
}

func TestShareNeverAboveOne(t *testing.T) {
	r := &Reading{Taken: start, Entities: []Entity{{Kind: GPU, UUID: "GPU-a", MIG: true}}}
	for i, slices := range []int{3, 2, 1, 1} {
		r.Entities = append(r.Entities, Entity{Kind: Instance, UUID: "GPU-a", InstanceID: i, ComputeSlices: slices, CardMaxCompute: 7,
			Values: []Value{{Field: fieldEngineActive, Number: 1.005, Time: start}}})
	}
	r.Entities = append(r.Entities, Entity{Kind: Instance, UUID: "GPU-a", InstanceID: 9, // slices not known
		Values: []Value{{Field: fieldEngineActive, Number: 1, Time: start}}})
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(text(compiler().Compile(r, Attribution{}), start)))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, m := range parsed["gpu_share_ratio"].GetMetric() {
		sum += m.GetGauge().GetValue()
	}
	if sum < 0.999 || sum > 1.000001 {
		t.Errorf("the shares of a full card sum to %g", sum)
	}
}

func FuzzLabelsRoundTrip(f *testing.F) {
	f.Add("plain", `back\slash "quote"`, "new\nline")
	f.Add("", "\x00\xff", "日本 }{,=")
	f.Fuzz(func(t *testing.T, model1, pod, help string) {
		c := compiler()
		c.opts.Compat.Counters[0].Help = help
		e := card(0.5, start)
		e.Model = model1
		page := c.Compile(&Reading{Taken: start, Entities: []Entity{e}},
			Attribution{Taken: start, Holders: [][]Holder{{{"ns", pod, "c"}}}})
		b, count := page.Append(nil, start, false)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		series := 0
		for _, family := range families {
			series += len(family.GetMetric())
		}
		if series != count.Series {
			t.Fatalf("%d series written, %d read", count.Series, series)
		}
		for _, label := range families["gpu_busy_ratio"].GetMetric()[0].GetLabel() {
			want := map[string]string{"model": model1, "pod": pod}[label.GetName()]
			if want != "" && label.GetValue() != strings.ToValidUTF8(want, "\uFFFD") {
				t.Fatalf("%s: wrote %q, read %q", label.GetName(), want, label.GetValue())
			}
		}
	})
}
