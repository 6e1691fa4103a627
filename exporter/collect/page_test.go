package collect

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

var start = time.Unix(1_800_000_000, 0)

// device is a GPU that computes at the given ratio, taken at a time.
func device(busy float64, taken time.Time) Entity {
	return Entity{Kind: GPU, UUID: "GPU-a", Model: "L40S", Values: []Value{
		{Field: fieldPowerWatts, Number: 100, Time: taken},
		{Field: FieldEngineActive, Number: busy, Time: taken},
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
	e := device(0.5, start)
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
		for name, want := range map[string]bool{
			"gpu_power_watts": c.power, "DCGM_FI_DEV_POWER_USAGE": c.power, "gpu_busy_ratio": c.ratio,
			"gpu_sample_age_seconds{": true, "gpu_attribution_age_seconds{": true, // these show that the others are gone
		} {
			if has := strings.Contains(got, name); has != want {
				t.Errorf("after %s: %s there: %v", c.after, name, has)
			}
		}
	}
	_, count := page.Append(nil, start.Add(time.Hour), false)
	if count.Stale == 0 || count.Series != 2 {
		t.Errorf("count = %+v, want two ages and the rest stale", count)
	}
}

// The clock is set back or forward after the reading: the age of its values is the time that has passed.
func TestClockSetAfterTheReading(t *testing.T) {
	taken := time.Now()
	page := compiler().Compile(&Reading{Taken: taken, Entities: []Entity{device(0.5, taken.Round(0))}}, Attribution{}) // a value has no monotonic time
	for _, step := range []int64{-3600, 0, 3600} {
		for after, fresh := range map[time.Duration]bool{time.Second: true, time.Minute: false} {
			now := taken.Add(after)
			*(*uint64)(unsafe.Pointer(&now)) += uint64(step << 30) // of a Time with a monotonic clock reading, the seconds of its wall clock
			if got := now.Round(0).Sub(taken.Round(0)); got != after+time.Duration(step)*time.Second || now.Sub(taken) != after {
				t.Fatalf("the clock is %s later, want %s and %d s", got, after, step)
			}
			if text := text(page, now); strings.Contains(text, "gpu_busy_ratio{") != fresh || !strings.Contains(text, fmt.Sprintf("gpu_sample_age_seconds{node=\"n\",gpu=\"0\",gpu_uuid=\"GPU-a\"} %g\n", after.Seconds())) {
				t.Errorf("%s after the reading, the clock set by %d s: fresh values want %v:\n%s", after, step, fresh, text)
			}
		}
	}
}

func TestClockBehindIsFresh(t *testing.T) {
	page := compiler().Compile(&Reading{Taken: start, Entities: []Entity{device(0.5, start.Add(time.Minute))}}, Attribution{})
	got := text(page, start)
	if !strings.Contains(got, "gpu_busy_ratio{") || !strings.Contains(got, `gpu_sample_age_seconds{node="n",gpu="0",gpu_uuid="GPU-a"} 0`) {
		t.Errorf("a host engine whose clock is ahead:\n%s", got)
	}
}

func TestOpenMetrics(t *testing.T) {
	e := device(0.5, start)
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

func TestIdle(t *testing.T) {
	var kept tally
	allocation := Allocation{"ns", "p", "c"}
	step := func(at time.Duration, busy float64, known bool, h Allocation) (idle time.Duration) {
		s := subject{entity: &Entity{Kind: GPU, UUID: "GPU-a"}}
		if h != (Allocation{}) {
			s.allocations = []subject{{labels: &labelSet{allocation: h}}}
		}
		if known && h != (Allocation{}) {
			s.allocations[0].busy = Value{Number: busy, Time: start.Add(at)}
		}
		kept.addIdle(&s, 2500*time.Millisecond)
		for _, a := range s.allocations {
			idle = a.idle
		}
		return idle
	}
	for _, c := range []struct {
		at    time.Duration
		busy  float64
		known bool
		want  time.Duration
	}{
		{0, 0, true, 0},
		{time.Second, 0.005, true, time.Second},
		{2 * time.Second, 0, false, 0}, // unknown: changes nothing
		{3 * time.Second, 0, true, 3 * time.Second},
		{4 * time.Second, 0.5, true, 0},
		{5 * time.Second, 0, true, 0},
		{20 * time.Second, 0, true, 0}, // the gap is unknown
		{21 * time.Second, 0, true, time.Second},
		{-time.Hour, 0, true, 0}, // the clock was set back
		{time.Second - time.Hour, 0, true, time.Second},
	} {
		if got := step(c.at, c.busy, c.known, allocation); got != c.want {
			t.Errorf("at %s: idle %s, want %s", c.at, got, c.want)
		}
	}
	if got := step(22*time.Second, 0, true, Allocation{"ns", "other", "c"}); got != 0 {
		t.Errorf("a new allocation inherits %s", got)
	}
	if step(23*time.Second, 0, true, Allocation{}); len(kept.idle) != 0 {
		t.Error("a free GPU is remembered as idle")
	}
}

func FuzzLabelsRoundTrip(f *testing.F) {
	f.Add("plain", `back\slash "quote"`, "new\nline")
	f.Add("", "\x00\xff", "日本 }{,=")
	f.Fuzz(func(t *testing.T, model1, name, help string) {
		c := compiler()
		c.opts.Compat.Counters[0].Help = help
		e := device(0.5, start)
		e.Model = model1
		page := c.Compile(&Reading{Taken: start, Entities: []Entity{e}},
			Attribution{Taken: start, Allocations: [][]Allocated{{pod(name, Allocated{})}}})
		_, count := page.Append(nil, start, false)
		families, series := parsed(t, page, start), 0
		for _, family := range families {
			series += len(family.GetMetric())
		}
		if series != count.Series {
			t.Fatalf("%d series written, %d read", count.Series, series)
		}
		for _, label := range families["gpu_busy_ratio"].GetMetric()[0].GetLabel() {
			want := map[string]string{"model": model1, "pod": name}[label.GetName()]
			if want != "" && label.GetValue() != strings.ToValidUTF8(want, "\uFFFD") {
				t.Fatalf("%s: wrote %q, read %q", label.GetName(), want, label.GetValue())
			}
		}
	})
}

func TestPodLabels(t *testing.T) {
	for _, c := range []struct {
		uid    string
		labels map[string]string
		want   string
	}{
		{"", nil, ""},
		{"u", nil, `pod_uid="u"`},
		{"", map[string]string{"app.kubernetes.io/name": "x"}, `app_kubernetes_io_name="x"`},
		{"u", map[string]string{"pod_uid": "liar", "gpu": "1", "Hostname": "h"}, `pod_label_Hostname="h",pod_label_gpu="1",pod_label_pod_uid="liar",pod_uid="u"`},
		{"", map[string]string{"a.b": "1", "a-b": "2", "a_b": "3"}, `a_b="2",a_b_conflict1="1",a_b_conflict2="3"`},
		{"", map[string]string{"a-b": "1", "a.b": "2", "a_b_conflict1": "3"}, `a_b="1",a_b_conflict1="2",a_b_conflict1_conflict1="3"`},
		{"", map[string]string{"gpu": "1", "pod_label_gpu": "2"}, `pod_label_gpu="1",pod_label_gpu_conflict1="2"`},
		{"", map[string]string{"1a": "x", "__name__": "y", "DCGM_FI_DEV_SERIAL": "z", "dcgm_gpu_temp": "50"}, // a counters file may make labels of these
			`_1a="x",pod_label_DCGM_FI_DEV_SERIAL="z",pod_label___name__="y",pod_label_dcgm_gpu_temp="50"`},
		{"", map[string]string{"q": `a"b\c`}, `q="a\"b\\c"`},
	} {
		if got := PodLabels(c.uid, c.labels); got != c.want {
			t.Errorf("%v: %s, want %s", c.labels, got, c.want)
		}
	}
}

// A pod with thousands of labels, whose names become equal, does not fill the page of its node.
func TestManyPodLabels(t *testing.T) {
	labels := map[string]string{}
	for i := range 2000 {
		labels[strings.NewReplacer("0", "a-", "1", "a.").Replace(fmt.Sprintf("%014b", i))] = "x"
	}
	if text := PodLabels("uid", labels); len(text) > maxPodLabels+200 || !strings.HasSuffix(text, `,pod_uid="uid"`) {
		t.Errorf("%d bytes: …%.100s", len(text), text[len(text)-100:])
	}
}

// With any labels of a pod the exposition is valid, and each label is there once.
func FuzzPodLabels(f *testing.F) {
	f.Add("gpu", "1", "g.pu", "2")
	f.Add("a-b", "\"", "a.b", "\n")
	f.Add("", "x", "__name__", "y")
	f.Add("quote", "\"} 1\nDCGM_FI_DEV_GPU_UTIL{gpu=\"9\"} 99", "bytes", "\xff\x00")
	f.Add("le", `\`, "日本", "y")
	f.Add("UUID", "GPU-z", "1st", "x")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		text := PodLabels("uid", map[string]string{name1: value1, name2: value2})
		b := []byte(joinLabels(`gpu="0"`, text))
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader("m{" + string(b) + "} 1\n"))
		if err != nil || !utf8.Valid(b) {
			t.Fatalf("%q: %v", b, err)
		}
		seen := map[string]bool{}
		for _, l := range families["m"].GetMetric()[0].GetLabel() {
			if seen[l.GetName()] || strings.HasPrefix(l.GetName(), "__") {
				t.Fatalf("%q: label %s", b, l.GetName())
			}
			seen[l.GetName()] = true
		}
	})
}

// A change of the allocation shows; a change of a pod's labels shows on the DCGM series and not on ours.
func TestPodLabelsChange(t *testing.T) {
	c := compiler()
	r := &Reading{Taken: start, Entities: []Entity{device(0.5, start)}}
	page := func(name, label string) string {
		return text(c.Compile(r, Attribution{Taken: start, Allocations: [][]Allocated{{pod(name, Allocated{})}},
			Pods: map[PodName]string{{"ns", name}: label}}), start)
	}
	before, after, other := page("p", `app="a"`), page("p", `app="b"`), page("q", `app="b"`)
	if !strings.Contains(before, `pod="p",app="a"} 100`) || !strings.Contains(after, `pod="p",app="b"} 100`) || strings.Contains(other, `pod="p"`) ||
		strings.Count(before, `app="a"`) != 1 {
		t.Errorf("before:\n%s\nafter:\n%s\nof another pod:\n%s", before, after, other)
	}
}

// pair is two GPUs with changing values; the power of the first one is old.
func pair(busy0, busy1 float64, taken time.Time) *Reading {
	a, b := device(busy0, taken), device(busy1, taken)
	b.GPU, b.UUID = 1, "GPU-b"
	a.Values[0].Time = taken.Add(-2 * time.Second)
	return &Reading{Taken: taken, Entities: []Entity{a, b}}
}

// An old series is removed alone: the others of its family stay.
func TestOldSeriesGoesAlone(t *testing.T) {
	page := compiler().Compile(pair(0.25, 0.5, start), Attribution{})
	got := text(page, start.Add(time.Second))
	for line, want := range map[string]int{
		`gpu_power_watts{node="n",gpu="1",gpu_uuid="GPU-b",model="L40S"} 100` + "\n": 1,
		`gpu_power_watts{node="n",gpu="0"`:                                           0,
		`DCGM_FI_DEV_POWER_USAGE{gpu="0"`:                                            0,
		`DCGM_FI_DEV_POWER_USAGE{gpu="1"`:                                            1,
		`gpu_busy_ratio{node="n",gpu="1",gpu_uuid="GPU-b",model="L40S"} 0.5` + "\n":  1,
		"# HELP gpu_power_watts ":                                                    1,
	} {
		if n := strings.Count(got, line); n != want {
			t.Errorf("%q is there %d times, want %d:\n%s", line, n, want, got)
		}
	}
}
