package gather

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/doctor"
	"github.com/gpuscale/gpuscale/report/fixture"
)

// scraped are the samples of two healthy exporters, without honor_labels: a
// node with whole GPUs, one of them sick, and one with instances. A value is that of
// twenty scrapes a minute apart; "0+1" is one more at each, "1 from 18" begins late.
const scraped = `
  gpu_info{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1", mig="false"} 1
  gpu_info{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g2", mig="false"} 1
  gpu_info{job="e", instance="2", namespace="gs", pod="eb", node="b", gpu_uuid="g3", mig="true"} 1
  gpu_instance_info{job="e", instance="2", namespace="gs", pod="eb", node="b", gpu_uuid="g3", gpu_instance_id="7"} 1
  gpu_healthy{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1", reason=""} 1
  gpu_healthy{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g2", reason="xid"} 0
  gpu_busy_ratio{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1", exported_pod="h"} 0.5
  gpu_instance_busy_ratio{job="e", instance="2", namespace="gs", pod="eb", node="b", gpu_uuid="g3", gpu_instance_id="7"} 0.5
  gpu_attribution_age_seconds{job="e", instance="1", namespace="gs", pod="ea", node="a"} 3
  gpu_attribution_age_seconds{job="e", instance="2", namespace="gs", pod="eb", node="b"} 3
  gpu_sample_age_seconds{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1"} 1
  gpuscale_exporter_attribution_errors_total{job="e", instance="1", namespace="gs", pod="ea"} 0+1
  gpuscale_exporter_build_info{job="e", instance="1", namespace="gs", pod="ea"} 1
`

// gpu_held without honor_labels, with them, and with exported_* dropped.
const (
	moved   = `  gpu_held{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1", exported_namespace="team", exported_pod="h"} 1` + "\n"
	honored = `  gpu_held{job="e", instance="1", namespace="team", pod="h", node="a", gpu_uuid="g1"} 1` + "\n"
	dropped = `  gpu_held{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1"} 1` + "\n"
)

// TestMeanings evaluates the queries with Prometheus' own engine: a healthy state gives
// nothing, and each fault its series.
func TestMeanings(t *testing.T) {
	for _, c := range []struct {
		name, series string
		source       doctor.Source
		want         []string
	}{
		{"in order", scraped + moved, doctor.GPUsTwice, nil},
		{"in order", scraped + moved, doctor.BusyMissing, nil},
		{"in order", scraped + moved, doctor.LabelsPlain, nil},
		{"in order", scraped + moved, doctor.LabelsSelf, nil},
		{"in order", scraped + moved, doctor.LabelsMoved, []string{`{job="e"} 1`}},
		{"in order", scraped + moved, doctor.AttributionOld, nil},
		{"in order", scraped + moved, doctor.AttributionFailed, nil},
		{"in order", scraped + moved, doctor.AttributionNone, nil},
		{"in order", scraped + moved, doctor.SamplesOld, nil},
		{"in order", scraped + moved, doctor.GPUNodes, []string{`{node="a"} 2`, `{node="b"} 1`}},
		{"in order", scraped + moved, doctor.Builds, []string{`{program="exporter"} 1`}},

		{"honor_labels", scraped + honored, doctor.LabelsPlain, []string{`{job="e"} 1`}},
		{"honor_labels", scraped + honored, doctor.LabelsSelf, nil},
		{"exported labels dropped", scraped + dropped, doctor.LabelsSelf, []string{`{job="e", namespace="gs", pod="ea"} 1`}},
		{"exported labels dropped", scraped + dropped, doctor.LabelsPlain, nil},
		{"a second job", scraped + `  gpu_info{job="pods", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1", mig="false"} 1` + "\n", doctor.GPUsTwice,
			[]string{`{instance="1", job="e", namespace="gs", pod="ea"} 1`, `{instance="1", job="pods", namespace="gs", pod="ea"} 1`}},
		{"not profiled", without(scraped, "gpu_busy_ratio"), doctor.BusyMissing, []string{`{node="a"} 1`}}, // the sick one apart
		{"instances not profiled", without(scraped, "gpu_instance_busy_ratio"), doctor.BusyMissing, []string{`{node="b"} 1`}},
		{"the kubelet never answered", without(scraped, "gpu_attribution_age_seconds"), doctor.AttributionNone, []string{`{node="a"} 2`, `{node="b"} 1`}},
		{"the kubelet never answered", without(scraped, "gpu_attribution_age_seconds"), doctor.AttributionFailed, []string{`{instance="1", job="e"} 15`}},
		{"a removed target", without(without(scraped, "gpu_attribution_age_seconds"), "gpuscale_exporter_build_info"), doctor.AttributionFailed, nil},
		{"attribution is old", scraped + `  gpu_attribution_age_seconds{job="e", instance="3", node="c"} 900` + "\n", doctor.AttributionOld, []string{`{node="c"} 900`}},
		{"samples are old", scraped + `  gpu_sample_age_seconds{job="e", instance="3", node="c", gpu_uuid="g4"} 700` + "\n", doctor.SamplesOld, []string{`{node="c"} 700`}},
		{"a target is down", scraped + `  up{job="gpuscale-adapter", instance="9"} 0` + "\n", doctor.TargetsDown, []string{`{instance="9", job="gpuscale-adapter"} 1`}},
		{"limits", scraped + `  gpuscale_autoscaler_limit_exceeded_pods{job="a", instance="4", namespace="gs", exported_namespace="t", reason="pending_pods"} 12` + "\n", doctor.LimitsExceeded,
			[]string{`{exported_namespace="t", namespace="gs", reason="pending_pods"} 12`}},
		{"another program's target is down", scraped + `  up{job="x", instance="9"} 0` + "\n", doctor.TargetsDown, nil},
		{"another cluster", scraped, doctor.GPUNodes, nil},
	} {
		t.Run(c.name+"/"+string(c.source), func(t *testing.T) {
			match := ""
			if c.name == "another cluster" {
				match = `cluster="b"`
			}
			v, err := recorded(t, c.series).Query(t.Context(), Written(query(t, c.source), match), begin.Add(20*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if got := words(v); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func query(t *testing.T, s doctor.Source) string {
	t.Helper()
	for _, d := range doctor.Table {
		if d.Source == s {
			return d.Query
		}
	}
	t.Fatalf("no source %s", s)
	return ""
}

func without(series, name string) string {
	var out []string
	for line := range strings.SplitSeq(series, "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), name+"{") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

var begin = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

var (
	line = regexp.MustCompile(`^(\w+)\{(.*)\} ([0-9.]+)(\+1)?(?: from (\d+))?$`)
	pair = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// recorded is a Prometheus that has scraped series for twenty minutes.
func recorded(t *testing.T, series string) *fixture.Prometheus {
	t.Helper()
	p := fixture.New()
	for minute := range 21 {
		var exposed []fixture.Sample
		for text := range strings.SplitSeq(strings.TrimSpace(series), "\n") {
			m := line.FindStringSubmatch(strings.TrimSpace(text))
			if m == nil {
				t.Fatalf("cannot be read: %s", text)
			}
			value, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				t.Fatal(err)
			}
			if m[4] != "" {
				value += float64(minute)
			}
			if from, err := strconv.Atoi(m[5]); err == nil && minute < from {
				continue // it is not there yet
			}
			s := fixture.Sample{Name: m[1], Value: value}
			for _, l := range pair.FindAllStringSubmatch(m[2], -1) {
				if l[2] != "" {
					s.Labels = append(s.Labels, [2]string{l[1], l[2]})
				}
			}
			exposed = append(exposed, s)
		}
		p.Scrape(begin.Add(time.Duration(minute)*time.Minute), fixture.Target{Honor: true}, exposed)
	}
	return p
}

// words of an answer, sorted.
func words(v prom.Vector) []string {
	var out []string
	for _, s := range v {
		var labels []string
		for name, value := range s.Labels.All() {
			labels = append(labels, fmt.Sprintf("%s=%q", name, value))
		}
		out = append(out, fmt.Sprintf("{%s} %g", strings.Join(labels, ", "), s.Value))
	}
	slices.Sort(out)
	return out
}
