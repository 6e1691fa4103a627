package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/report/fixture"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/render"
)

// TestShownShares: shares of the capacity as they are written add up to 100 %, less a
// tenth where something is smaller than that; each is less than a tenth from its value.
func TestShownShares(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		parts, sum := make([]float64, 1+n%8), 0.0
		for i := range parts {
			parts[i] = math.Pow(random.Float64(), float64(1+n%5))
			sum += parts[i]
		}
		var h model.Hours
		for i, v := range parts {
			h.Places = append(h.Places, model.Place{Place: strconv.Itoa(i), Share: model.Known(v / sum)})
		}
		shown, small, whole := h.Shown(), false, 0.0
		for i, v := range parts {
			text := model.Tenths(shown[strconv.Itoa(i)])
			if text == "< 0.1 %" {
				small = small || v/sum < 0.001
				continue
			}
			percent, err := strconv.ParseFloat(strings.TrimSuffix(text, " %"), 64)
			if err != nil || math.Abs(percent-100*v/sum) >= 0.1 {
				t.Errorf("%v is written %s", 100*v/sum, text)
			}
			whole += percent
		}
		if want := 100.0; math.Abs(whole-want) > 1e-6 && !(small && whole < want && whole > want-0.1*float64(len(parts))) {
			t.Errorf("%v: together %v %%", parts, whole)
		}
	}
}

// TestStyles: each class that the style names is on a page.
func TestStyles(t *testing.T) {
	var pages bytes.Buffer
	for _, r := range []model.Report{goldenReport(t), alone(t), hostile(t), model.Make(model.Input{Answers: query.Answers{Window: since(t, time.Hour)}})} {
		if err := render.HTML(&pages, r); err != nil {
			t.Fatal(err)
		}
	}
	style, page, _ := strings.Cut(pages.String(), "</style>")
	used := map[string]bool{"fair": true, "p-unmeasured": true, "g-coming": true} // of no report here
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
			var points []chunks.Sample
			for at := w.From.Add(-time.Minute); !at.After(w.Until); at = at.Add(time.Minute) {
				points = append(points, memstore.At(at, at.Sub(w.From.Add(-time.Minute)).Minutes()))
			}
			series = append(series, storage.NewListSeries(labels.FromStrings(labels.MetricName, metric.VLLMGenerationTokens.Name,
				metric.LabelNamespace, namespace, metric.LabelPod, fmt.Sprint("p", i), metric.LabelModelName, "m"), points))
		}
	}
	serve("chat", 2)
	serve("loud", query.MostServing+1)
	p := fixture.Over(series)
	a := query.Answers{Window: w, Servers: true, Lines: map[query.ID][]prom.Line{}, Vectors: map[query.ID]prom.Vector{}}
	for _, ask := range a.Dialect.Asks(w, query.FromServers) {
		lines, err := p.Range(t.Context(), ask.PromQL, w.From, w.Until, w.Coarse)
		if err != nil {
			t.Fatal(ask.ID, err)
		}
		if len(lines) > 2 {
			t.Errorf("%s: %d series are read", ask.ID, len(lines))
		}
		a.Lines[ask.ID] = lines
	}
	tokens := map[string]model.Number{}
	for _, s := range model.Make(model.Input{Answers: a}).Use.Serving {
		tokens[s.Namespace] = s.Tokens
	}
	if v, ok := tokens["chat"].Get(); !ok || math.Abs(v-120) > 1e-6 {
		t.Errorf("chat wrote %v tokens (%s), want 120", v, tokens["chat"].Why())
	}
	if why := tokens["loud"].Why(); why != "its servers expose more than 2000 series of tokens" {
		t.Errorf("loud: %q", why)
	}
}
