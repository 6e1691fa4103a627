package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// scraped are the series of two healthy exporters, without honor_labels: a node with whole
// GPUs, one of them sick, and one with instances; a value a minute for twenty minutes.
const scraped = `
  gpu_info{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1", mig="false"} 1x20
  gpu_info{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g2", mig="false"} 1x20
  gpu_info{job="e", instance="2", namespace="gs", pod="eb", node="b", gpu_uuid="g3", mig="true"} 1x20
  gpu_instance_info{job="e", instance="2", namespace="gs", pod="eb", node="b", gpu_uuid="g3", gpu_instance_id="7"} 1x20
  gpu_healthy{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1"} 1x20
  gpu_healthy{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g2", reason="xid"} 0x20
  gpu_busy_ratio{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1", exported_pod="h"} 0.5x20
  gpu_instance_busy_ratio{job="e", instance="2", namespace="gs", pod="eb", node="b", gpu_uuid="g3", gpu_instance_id="7"} 0.5x20
  gpu_attribution_age_seconds{job="e", instance="1", namespace="gs", pod="ea", node="a"} 3x20
  gpu_attribution_age_seconds{job="e", instance="2", namespace="gs", pod="eb", node="b"} 3x20
  gpu_sample_age_seconds{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1"} 1x20
  gpuscale_exporter_attribution_errors_total{job="e", instance="1", namespace="gs", pod="ea"} 0+1x20
  gpuscale_exporter_build_info{job="e", instance="1", namespace="gs", pod="ea"} 1x20
`

// gpu_held without honor_labels, with them, and with exported_* dropped.
const (
	moved   = `  gpu_held{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1", exported_namespace="team", exported_pod="h"} 1x20` + "\n"
	honored = `  gpu_held{job="e", instance="1", namespace="team", pod="h", node="a", gpu_uuid="g1"} 1x20` + "\n"
	dropped = `  gpu_held{job="e", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1"} 1x20` + "\n"
)

// TestMeanings evaluates the queries with Prometheus' own engine: a healthy state gives
// nothing, and each fault its series.
func TestMeanings(t *testing.T) {
	for _, c := range []struct {
		name, series string
		source       *Source
		want         []string
	}{
		{"in order", scraped + moved, GPUsTwice, nil},
		{"in order", scraped + moved, BusyMissing, nil},
		{"in order", scraped + moved, LabelsPlain, nil},
		{"in order", scraped + moved, LabelsSelf, nil},
		{"in order", scraped + moved, LabelsMoved, []string{`{job="e"} 1`}},
		{"in order", scraped + moved, AttributionOld, nil},
		{"in order", scraped + moved, AttributionFailed, nil},
		{"in order", scraped + moved, AttributionNone, nil},
		{"in order", scraped + moved, SamplesOld, nil},
		{"in order", scraped + moved, GPUNodes, []string{`{node="a"} 2`, `{node="b"} 1`}},
		{"in order", scraped + moved, Builds, []string{`{program="exporter"} 1`}},

		{"honor_labels", scraped + honored, LabelsPlain, []string{`{job="e"} 1`}},
		{"honor_labels", scraped + honored, LabelsSelf, nil},
		{"exported labels dropped", scraped + dropped, LabelsSelf, []string{`{job="e", namespace="gs", pod="ea"} 1`}},
		{"exported labels dropped", scraped + dropped, LabelsPlain, nil},
		{"a second job", scraped + `  gpu_info{job="pods", instance="1", namespace="gs", pod="ea", node="a", gpu_uuid="g1", mig="false"} 1x20` + "\n", GPUsTwice,
			[]string{`{instance="1", job="e", namespace="gs", pod="ea"} 1`, `{instance="1", job="pods", namespace="gs", pod="ea"} 1`}},
		{"not profiled", without(scraped, "gpu_busy_ratio"), BusyMissing, []string{`{node="a"} 1`}}, // the sick one apart
		{"instances not profiled", without(scraped, "gpu_instance_busy_ratio"), BusyMissing, []string{`{node="b"} 1`}},
		{"the kubelet never answered", without(scraped, "gpu_attribution_age_seconds"), AttributionNone, []string{`{node="a"} 2`, `{node="b"} 1`}},
		{"the kubelet never answered", without(scraped, "gpu_attribution_age_seconds"), AttributionFailed, []string{`{instance="1", job="e"} 15`}},
		{"a removed target", without(without(scraped, "gpu_attribution_age_seconds"), "gpuscale_exporter_build_info"), AttributionFailed, nil},
		{"attribution is old", scraped + `  gpu_attribution_age_seconds{job="e", instance="3", node="c"} 900x20` + "\n", AttributionOld, []string{`{node="c"} 900`}},
		{"samples are old", scraped + `  gpu_sample_age_seconds{job="e", instance="3", node="c", gpu_uuid="g4"} 700x20` + "\n", SamplesOld, []string{`{node="c"} 700`}},
		{"a target is down", scraped + `  up{job="gpuscale-adapter", instance="9"} 0x20` + "\n", TargetsDown, []string{`{instance="9", job="gpuscale-adapter"} 1`}},
		{"limits", scraped + `  gpuscale_autoscaler_limit_exceeded_pods{job="a", instance="4", namespace="gs", exported_namespace="t", reason="pending_pods"} 12x20` + "\n", LimitsExceeded,
			[]string{`{exported_namespace="t", namespace="gs", reason="pending_pods"} 12`}},
		{"another program's target is down", scraped + `  up{job="x", instance="9"} 0x20` + "\n", TargetsDown, nil},
		{"another cluster", scraped, GPUNodes, nil},
	} {
		t.Run(c.name+"/"+c.source.Name, func(t *testing.T) {
			match := ""
			if c.name == "another cluster" {
				match = `cluster="b"`
			}
			recorded, err := memstore.Read(c.series, memstore.From(now, time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			v, err := memstore.Query(t.Context(), engine, recorded, Written(c.source.Query, match), now.Add(20*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if got := words(v); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

var engine = memstore.NewEngine(nil)

func without(series, name string) string {
	var out []string
	for line := range strings.SplitSeq(series, "\n") {
		if !strings.HasPrefix(strings.TrimSpace(line), name+"{") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// words of an answer, sorted.
func words(v prom.Vector) []string {
	var out []string
	for _, s := range v {
		out = append(out, fmt.Sprintf("%s %g", s.Labels, s.Value))
	}
	slices.Sort(out)
	return out
}
