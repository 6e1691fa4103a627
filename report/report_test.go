package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"

	goldenfile "github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/prices"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/render"
)

const schemaFile = "../docs/schema/report-v1.json"

// TestSchema: the committed schema is the one of the model's types, and reports
// with and without an autoscaler pass an independent validator.
func TestSchema(t *testing.T) {
	made, err := schema()
	require.NoError(t, err)
	goldenfile.Equal(t, schemaFile, string(made))
	compiled, err := jsonschema.NewCompiler().Compile(schemaFile)
	require.NoError(t, err)
	for name, r := range map[string]model.Report{
		"whole": goldenReport(t), "without autoscaler": alone(t), "hostile": hostile(t), "nothing": model.Make(model.Input{Answers: query.Answers{Window: since(t, time.Hour)}}),
	} {
		var out bytes.Buffer
		require.NoError(t, text.JSON(&out, r))
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(out.Bytes()))
		require.NoError(t, err)
		if err := compiled.Validate(document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The validator finds errors.
	var broken map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{"schema": 1, "surprise": true}`), &broken))
	if compiled.Validate(broken) == nil {
		t.Error("a document that is no report was valid")
	}
}

// schema describes the JSON form in JSON Schema (2020-12): docs/schema/report-v1.json is made
// from the types of package model.
func schema() ([]byte, error) {
	s := describe(reflect.TypeFor[model.Report](), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Capacity report of gpuscale-report, schema 1"
	s["$defs"] = map[string]any{"number": map[string]any{
		"description": "A number, or why there is none. It is never 0 for unknown.",
		"oneOf": []any{
			map[string]any{"type": "number"},
			map[string]any{"type": "object", "properties": map[string]any{"unknown": map[string]any{"type": "string", "minLength": 1}}, "required": []string{"unknown"}, "additionalProperties": false},
		},
	}}
	s["properties"].(map[string]any)["schema"] = map[string]any{"const": model.Schema}
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	return append(raw, '\n'), nil
}

func describe(t reflect.Type, doc string) map[string]any {
	s := map[string]any{}
	if doc != "" {
		s["description"] = doc
	}
	switch {
	case t == reflect.TypeFor[model.Number]():
		s["$ref"] = "#/$defs/number"
	case t == reflect.TypeFor[time.Time]():
		s["type"], s["format"] = "string", "date-time"
	case t.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", describe(t.Elem(), "")
	case t.Kind() == reflect.Struct:
		properties := map[string]any{}
		var required []string
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("json")
			properties[name] = describe(f.Type, f.Tag.Get("doc"))
			required = append(required, name)
		}
		s["type"], s["properties"], s["required"], s["additionalProperties"] = "object", properties, required, false
	case t.Kind() == reflect.String:
		s["type"] = "string"
	case t.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case t.Kind() == reflect.Int:
		s["type"] = "integer"
	case t.Kind() == reflect.Float64:
		s["type"] = "number"
	}
	return s
}

// alone is the report of a cluster without the autoscaler.
func alone(t *testing.T) model.Report {
	t.Helper()
	return made(t, minutes().Prometheus.Without("gpuscale_autoscaler_"), 15*time.Minute)
}

func made(t *testing.T, p *Prometheus, since time.Duration) model.Report {
	t.Helper()
	return model.Make(model.Input{Answers: answered(t, p, since), Version: "v0.0.0-golden", Generated: generated})
}

// answered are a Prometheus' answers about a window at the story's end.
func answered(t *testing.T, p query.Prometheus, length time.Duration) query.Answers {
	t.Helper()
	a, err := query.Run(t.Context(), p, since(t, length), query.Options{})
	require.NoError(t, err)
	return a
}

// until ticks a cluster until the end of the story; each may change it before a tick.
func until(c *Cluster, each ...func()) *Cluster {
	for c.Now.Before(storyEnd) {
		for _, change := range each {
			change()
		}
		c.Tick()
	}
	return c
}

// evil is a name that is markup in every form.
var evil = "=cmd|'/c calc'!A1<script>alert(1)</script>|`x`](javascript:x)\"'&\u202egnp\u200b\u061c\x1b[31m\u009b\n# head" + strings.Repeat("a", 253)

// hostile is a cluster whose names come from an attacker.
func hostile(t *testing.T) model.Report {
	t.Helper()
	c := newCluster(storyEnd.Add(-20*time.Minute), 15*time.Second)
	c.Nodes = []*Node{{Name: evil, Pool: evil, Model: evil, GPUs: []*GPU{{UUID: "GPU-" + evil, XIDs: map[string]float64{}}, {UUID: "GPU-2", Sick: true}}}}
	c.Holds["GPU-"+evil] = Hold{Tenant: evil, Namespace: evil, Pod: evil, Memory: 1 << 30}
	until(c, func() {
		c.Nodes[0].GPUs[0].Idle = map[string]float64{"": 5000}
		c.Nodes[0].GPUs[0].XIDs[evil]++
	})
	return made(t, c.Prometheus, 15*time.Minute)
}

// TestHostileNames: no name becomes HTML, and none changes the writing direction.
func TestHostileNames(t *testing.T) {
	r := hostile(t)
	if len(r.Actions) == 0 || len(r.Use.Rows) == 0 || len(r.Reliability.XIDs) == 0 {
		t.Fatalf("the names are nowhere: %d actions, %d rows, %d codes", len(r.Actions), len(r.Use.Rows), len(r.Reliability.XIDs))
	}
	var out bytes.Buffer
	require.NoError(t, render.HTML(&out, r))
	if !strings.Contains(out.String(), "&lt;script&gt;") || strings.Contains(out.String(), "<script") || strings.Contains(out.String(), "\u202e") {
		t.Error("HTML has a script, a turned text, or no such name")
	}
	if i := strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf) }); i >= 0 {
		t.Errorf("HTML has an invisible character, which a terminal may obey: %q", out.String()[max(0, i-20):i+1])
	}
	if !strings.Contains(r.Answer.Text, "50.0 % were lost to broken GPUs and nodes") {
		t.Errorf("one of two GPUs is sick: %s", r.Answer.Text)
	}
	for _, a := range r.Actions {
		if a.Kind == "reclaim" && !strings.Contains(a.Patch, `'=cmd|'\''/c calc`) {
			t.Errorf("the patch is not quoted for a shell: %s", a.Patch)
		}
	}
}

// TestTheQueryGivesTheFigure evaluates every action's query.
func TestTheQueryGivesTheFigure(t *testing.T) {
	r := goldenReport(t)
	kinds := map[string]bool{}
	const folder = "../deploy/chart/gpuscale/files/crds/gpuscale.io_"
	crds := string(mustRead(t, folder+"gpunodepools.yaml")) + string(mustRead(t, folder+"gpuquotas.yaml"))
	for _, a := range r.Actions {
		kinds[a.Kind] = true
		v, err := story().Prometheus.Query(t.Context(), a.Query, r.Window.Until)
		if err != nil || len(v) != 1 {
			t.Errorf("%s: %v, %v\n%s", a.ID, v, err, a.Query)
			continue
		}
		if want := a.Hours.Or(math.NaN()); !(math.Abs(v[0].Value-want) <= 1e-6*want) {
			t.Errorf("%s: the query gives %v, the report says %v\n%s", a.ID, v[0].Value, want, a.Query)
		}
		for _, field := range regexp.MustCompile(`spec\.[][.a-zA-Z]+`).FindAllString(a.Patch, -1) {
			if last := field[strings.LastIndexByte(field, '.')+1:]; !strings.Contains(crds, " "+last+":\n") {
				t.Errorf("%s: no kind of ours has %s: %s", a.ID, field, a.Patch)
			}
		}
		if a.Patch == "" || a.Risk == "" || a.Because == "" || !slices.Contains([]string{"high", "medium", "low"}, a.Confidence) {
			t.Errorf("%s lacks something: %+v", a.ID, a)
		}
	}
	for _, kind := range []string{"reclaim", "right-size", "repartition", "replace", "grow-pool", "raise-quota", "raise-hpa", "shrink-pool", "strand"} {
		if !kinds[kind] {
			t.Errorf("the story has no %s", kind)
		}
	}
}

// TestTwoModels: a workload whose pods have GPUs of two models has actions, prices and slices of each.
func TestTwoModels(t *testing.T) {
	c := newCluster(storyEnd.Add(-2*24*time.Hour), 4*time.Minute)
	c.NoAutoscaler = true
	c.Nodes = []*Node{whole("h", "", modelH, 3), whole("a", "", modelA, 1), whole("p", "", "NVIDIA A100-PCIE-40GB", 1)}
	for device, pod := range map[string]string{"GPU-h-0": "notebook-0", "GPU-a-0": "notebook-1"} {
		c.Holds[device] = Hold{Namespace: "chat", Pod: pod, Memory: gib}
	}
	for device, pod := range map[string]string{"GPU-h-1": "embed-0", "GPU-p-0": "embed-1", "GPU-h-2": "embed-2"} {
		c.Holds[device] = Hold{Namespace: "chat", Pod: pod, Busy: 0.05, Memory: 3 * gib}
	}
	until(c)
	list, err := prices.Load("../docs/prices-example.yaml")
	require.NoError(t, err)
	a, err := query.Run(t.Context(), c.Prometheus, since(t, 2*24*time.Hour), query.Options{})
	require.NoError(t, err)
	in := golden(a)
	in.Prices = &list
	r, seen := model.Make(in), map[string]float64{}
	for _, x := range r.Actions {
		v, err := c.Prometheus.Query(t.Context(), x.Query, r.Window.Until)
		if err != nil || len(v) != 1 || !(math.Abs(v[0].Value-x.Hours.Or(math.NaN())) <= 1e-6*v[0].Value) {
			t.Errorf("%s: %v, %v, the report says %v\n%s", x.Title, v, err, x.Hours.Or(0), x.Query)
		}
		seen[x.Title] = math.Round(1000*x.Money.Or(math.NaN())/x.Hours.Or(0)) / 1000
	}
	h, _ := list.GPU("H100-80GB", false)
	s, _ := list.GPU("A100-40GB", false)
	want := map[string]float64{
		"Release whole GPUs (H100-80GB) of chat/notebook, which does not compute": h,
		"Release whole GPUs (A100-40GB) of chat/notebook, which does not compute": s,
		"Give chat/embed a 1g.10gb slice in place of a whole GPU (H100-80GB)":     h,
		"Give chat/embed a 1g.5gb slice in place of a whole GPU (A100-40GB)":      s,
	}
	if !maps.Equal(seen, want) {
		t.Errorf("prices by action %v, want %v", seen, want)
	}
}

// TestThePageIsAlone: the page loads no resource, runs no script, and describes each picture.
func TestThePageIsAlone(t *testing.T) {
	for name, r := range map[string]model.Report{"story": goldenReport(t), "alone": alone(t)} {
		var a, b bytes.Buffer
		require.NoError(t, render.HTML(&a, r))
		if err := render.HTML(&b, r); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: twice written, two pages", name)
		}
		page := a.String()
		for _, bad := range []string{"http://", "https://", "<script", "<img", "<link", "<iframe", "url(", "@import", " style=", "onclick", "NaN", "+Inf", "-Inf"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: the page has %q", name, bad)
			}
		}
		if n, m := strings.Count(page, `role="img"`), strings.Count(page, `role="img" aria-label=`); n == 0 || n != m {
			t.Errorf("%s: %d pictures, %d of them with words", name, n, m)
		}
		if strings.Count(page, "<table>") != strings.Count(page, "<caption>") {
			t.Errorf("%s: a table without a caption", name)
		}
	}
}

// TestWithoutTheAutoscaler: figures that only the autoscaler records are unknown with a reason, never 0.
func TestWithoutTheAutoscaler(t *testing.T) {
	r := alone(t)
	for _, p := range r.Hours.Places {
		v, known := p.Hours.Get()
		if need := slices.Contains([]string{"fragmented", "stranded", "cordoned", "booting", "repartitioning", "unready"}, p.Place); need == known {
			t.Errorf("%s is %v, known %v", p.Place, v, known)
		}
	}
	if r.Currency != "" || r.Demand.Missing == "" || len(r.Pools) != 0 {
		t.Errorf("currency %q, demand missing for %q, %d pools", r.Currency, r.Demand.Missing, len(r.Pools))
	}
	require.NoError(t, balanced(r))
}

// TestNumbers: the format of figures.
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{model.Digits(model.Known(0)), "0"}, {model.Digits(model.Known(1234567.8)), "1,234,568"}, {model.Digits(model.Known(12.34)), "12.3"}, {model.Digits(model.Unknown("why")), "n/a"},
		{model.Share(model.Known(0.00001)), "< 0.1 %"}, {model.Share(model.Known(0.0523)), "5.2 %"}, {model.Share(model.Known(1)), "100 %"},
		{model.Share(model.Known(0.9949)), "99.4 %"}, {model.Share(model.Known(0.99999)), "99.9 %"}, {model.Share(model.Known(1 - 1e-12)), "100 %"}, {model.Share(model.Known(1.05)), "105.0 %"},
		{model.Share(model.Known(2. / 3)), "66.6 %"}, {model.Share(model.Known(0.3)), "30.0 %"}, {model.Share(model.Known(0.99999)), "99.9 %"}, {model.Share(model.Known(0.0009)), "< 0.1 %"}, {model.Share(model.Known(1 - 1e-12)), "100 %"},
		{model.Duration(1), "1 hour"}, {model.Duration(0.5), "30 minutes"}, {model.Duration(30 * 24), "30 days"},
		{model.Money(model.Known(999.999)), "1000.00"}, {model.Seconds(model.Known(61)), "61 s"}, {model.Seconds(model.Known(600)), "10 min"}, {model.Tokens(model.Known(2.5e9)), "2.50 G"},
		{model.Bytes(model.Known(3 << 30)), "3 GiB"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// TestOwner: owners guessed from pods' names.
func TestOwner(t *testing.T) {
	for pod, want := range map[string]string{
		"vllm-7d4b9cf6d8-b2c4d": "Deployment vllm", "a-b-7d4b9cf6d8-b2c4d": "Deployment a-b", "anna-0": "StatefulSet anna", "job-b2c4d": "controller job", "alone": "Pod alone", "train-worker-0": "controller train-worker", "web-server": "Pod web-server",
	} {
		name, kind, pattern := model.Owner(pod)
		if got := kind + " " + name; got != want {
			t.Errorf("%s: %s, want %s", pod, got, want)
		}
		if !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(pod) {
			t.Errorf("%s is not like %s", pod, pattern)
		}
	}
}
