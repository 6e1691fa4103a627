package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// docAge stands for the configured maximum age, which no page shows.
const docAge = time.Minute

// What is written by hand. A test of adapter/config reads the rules: each has to load.
var (
	//go:embed text/signals.txt
	signalsIntroduction string
	//go:embed text/own_rules.txt
	ownRules string
	//go:embed text/gpu_util.txt
	gpuUtil string
	//go:embed text/signals.yaml
	signalsText []byte
)

// about documents a built-in signal, in addition to its rule.
type about struct {
	Signal, Meaning, Unit string
	Use                   string   // when to scale on it
	Targets               []advice // recommended, each with whose it is
	Limits                []string // what it does not show
}

type advice struct{ Value, From string }

// abouts returns one for each built-in rule, in the rules' order.
func abouts() (all []about, err error) {
	if err = yaml.UnmarshalStrict(signalsText, &all); err != nil {
		err = fmt.Errorf("text/signals.yaml: %w", err)
	}
	return all, err
}

// signalsPage is docs/signals.md.
func signalsPage(rules []signal.Rule, abouts []about) string {
	var b strings.Builder
	b.WriteString("# Signals\n\n" + generated + signalsIntroduction)
	b.WriteString("\n| signal | unit | meaning | of a pod's parts | of the pods | at zero replicas |\n|---|---|---|---|---|---|\n")
	for i, a := range abouts {
		zero := "unknown"
		if rules[i].AtZero != nil {
			zero = fmt.Sprintf("%g", *rules[i].AtZero)
		}
		row(&b, "["+a.Signal+"](#"+a.Signal+")", a.Unit, a.Meaning, string(rules[i].PerPod), string(rules[i].PerWorkload), zero)
	}
	for i, a := range abouts {
		fmt.Fprintf(&b, "\n## %s\n\n%s **Use.** %s\n", a.Signal, a.Meaning, a.Use)
		list(&b, "Targets", len(a.Targets), func(n int) string { return a.Targets[n].Value + ": " + a.Targets[n].From + "." })
		list(&b, "Limits", len(a.Limits), func(n int) string { return a.Limits[n] })
		b.WriteString("\n| server | read as | distinguished by | notes |\n|---|---|---|---|\n")
		for _, r := range rows(rules[i]) {
			row(&b, r.server, strings.Join(r.read, ", "), r.identity, r.notes)
		}
	}
	b.WriteString(ownRules + gpuUtil)
	return b.String()
}

// seriesOf are the series on the signals' page.
func seriesOf(rules []signal.Rule) []string {
	var out []string
	for _, r := range rules {
		for _, s := range r.Sources {
			out = append(out, s.Metric, s.Over)
			if s.Idle != nil {
				for _, w := range s.Idle.While {
					out = append(out, w.Metric)
				}
				if s.Idle.Progress != nil {
					out = append(out, s.Idle.Progress.Metric)
				}
			}
			if s.Absent != nil {
				out = append(out, s.Absent.While.Metric)
			}
			if s.Lives != nil {
				out = append(out, s.Lives.Metric)
			}
		}
	}
	return out
}

func list(b *strings.Builder, title string, length int, item func(int) string) {
	if length == 1 {
		fmt.Fprintf(b, "\n**%s.** %s\n", title, item(0))
	}
	if length <= 1 {
		return
	}
	fmt.Fprintf(b, "\n**%s.**\n\n", title)
	for n := range length {
		b.WriteString("- " + item(n) + "\n")
	}
}

// aboutSource is what a row says about a source, apart from its series. Sources with the same
// text share a row.
type aboutSource struct{ server, identity, notes string }

type sourcesRow struct {
	aboutSource
	read []string
}

// rows returns the sources of a rule. Spellings of one series share a row, which names the first
// spelling in its notes; the introduction says how the others differ.
func rows(r signal.Rule) (all []sourcesRow) {
	for _, s := range r.Sources {
		first := cells(r, spelled(s))
		if i := slices.IndexFunc(all, func(row sourcesRow) bool { return row.aboutSource == first }); i >= 0 {
			all[i].read = append(all[i].read, named(s))
			continue
		}
		all = append(all, sourcesRow{aboutSource: cells(r, s), read: []string{readAs(r, s)}})
	}
	return all
}

func cells(r signal.Rule, s signal.Source) aboutSource {
	return aboutSource{cmp.Or(s.Server, "gpuscale"), strings.Join(s.Parts(&r), " "), notes(r, s)}
}

// spelling undoes what the monitors of OpenShift AI, Ray, and a Prometheus 2 do to names.
func spelling(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "kserve_"), "ray_")
	for _, server := range []string{"vllm", "sglang", "lmdeploy"} {
		if rest, is := strings.CutPrefix(name, server+"_"); is {
			return server + ":" + rest
		}
	}
	return name
}

// spelled returns the source of the first spelling.
func spelled(s signal.Source) signal.Source {
	ray := strings.HasPrefix(s.Metric, "ray_") && s.Server != "ray-serve"
	s.Unless = spelling(s.Unless)
	if s.Idle != nil {
		idle := *s.Idle
		idle.While = slices.Clone(idle.While)
		for i := range idle.While {
			idle.While[i].Metric = spelling(idle.While[i].Metric)
		}
		if idle.Progress != nil {
			progress := *idle.Progress
			progress.Metric = spelling(progress.Metric)
			idle.Progress = &progress
		}
		s.Idle = &idle
	}
	if s.Absent != nil && !ray {
		absent := *s.Absent
		absent.While.Metric = spelling(absent.While.Metric)
		s.Absent = &absent
	}
	if ray && s.Absent == nil {
		s.Fleeting, s.Lives = false, nil
	}
	if ray || spelling(s.Metric) != s.Metric {
		s.Identity = slices.DeleteFunc(slices.Clone(s.Identity), func(label string) bool {
			return slices.Contains([]string{"ReplicaId", "WorkerId", "worker_addr"}, label)
		})
	}
	return s
}

// readAs describes the query in a few words.
func readAs(r signal.Rule, s signal.Source) string {
	name := named(s)
	switch s.Form {
	case signal.Quantile:
		name = fmt.Sprintf("p%g of %s over %s", s.Quantile*100, name, short(r.Window))
	case signal.Mean:
		name = fmt.Sprintf("mean of %s over %s", name, short(r.Window))
	case signal.Rate:
		name = fmt.Sprintf("growth of %s over %s", name, short(r.Window))
	}
	if s.Scale != nil {
		name += fmt.Sprintf(" × %g", *s.Scale)
	}
	return name
}

func named(s signal.Source) string {
	name := "`" + s.Metric + narrowing(s.Matchers) + "`"
	if s.Over != "" {
		name += " / `" + s.Over + "`"
	}
	return name
}

func narrowing(by signal.Matchers) string {
	if len(by) == 0 {
		return ""
	}
	var all []string
	for _, m := range by {
		all = append(all, m.String())
	}
	return "{" + strings.Join(all, ",") + "}"
}

func notes(r signal.Rule, s signal.Source) string {
	var all []string
	if s.Gateway {
		all = append(all, "gateway")
	}
	if s.Unless != "" {
		all = append(all, "missing while `"+s.Unless+"` is 0")
	}
	for _, label := range metric.GatewayLabels() {
		if slices.Contains(s.Identity, label) {
			all = append(all, "gateway if it has `"+label+"`")
		}
	}
	if s.Idle != nil {
		var while []string
		for _, w := range s.Idle.While {
			while = append(while, "`"+w.Metric+"`")
		}
		also := progress(s)
		if s.Lives != nil {
			also = ", or `" + s.Lives.Metric + "` did" + also
		}
		all = append(all, fmt.Sprintf("NaN: %g if %s stayed 0 for %s%s, else missing", s.Idle.Value, strings.Join(while, " and "), short(r.Window), also))
	}
	if s.Lives != nil {
		all = append(all, "of replicas that have `"+s.Lives.Metric+"`")
	}
	if a := s.Absent; a != nil {
		is := "there"
		if a.While.Is != nil {
			is = fmt.Sprint(*a.While.Is)
		}
		all = append(all, fmt.Sprintf("absent: %g while `%s` of the same pod is %s", a.Value, a.While.Metric, is))
	}
	if len(s.Without) > 0 {
		all = append(all, "summed over `"+strings.Join(s.Without, "`, `")+"`")
	}
	if s.Fleeting {
		all = append(all, "parts come and go")
	}
	return strings.Join(all, "; ")
}

func progress(s signal.Source) string {
	if s.Idle.Progress == nil {
		return ""
	}
	return ", or the first of them and `" + s.Idle.Progress.Metric + narrowing(s.Idle.Progress.Matchers) + "` grew"
}

// short writes a duration without its zero parts.
func short(d time.Duration) string {
	return strings.TrimSuffix(d.String(), "0s")
}
