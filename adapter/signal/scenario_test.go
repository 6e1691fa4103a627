package signal_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

// scrapeEvery is the scrape interval of the scenarios, their first scrape is scrape 0.
const scrapeEvery = 5 * time.Second

var first = time.UnixMilli(1_700_000_000_000)

// TestScenarios runs testdata/scenarios/*.txt over Prometheus' own engine:
//
//	load                   series in promtool's notation, a value each scrape, in place of those before
//	rule                   a rule of the configuration file, or the problems of one
//	ask rule=R at=(4, 9)   asks after scrape 4 and after scrape 9, and then answers each line of:
//	                         pod NS/POD [SELECTOR], pods NS/POD …, namespace NS [SELECTOR], external NS [SELECTOR]
//
// An ask has each=(40, 72) in place of at, which answers after each of these scrapes and prints
// the changes. Its options: for=(NS, …), the namespaces in the query; past, which asks about the
// past first, as an adapter that begins; maxAge, 15s if unset; exporters=(NS, …); servers=(…), the
// sources of these servers only; live=(POD, …), the pods that live, POD@N since scrape N; later=D,
// when the answers are given; why, which prints the reasons of missing answers.
//
// The reader's clock is an hour ahead of Prometheus', which must not matter. -rewrite writes the
// outputs again.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := scenario{rules: map[string]signal.Rule{}}
		for _, r := range signal.Builtin(15 * time.Second) {
			s.rules[r.Name] = r
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "load":
				s.series = promtest.Load(t, d.Input, memstore.From(first, scrapeEvery), nil)
				return ""
			case "rule":
				return s.declare(t, d)
			case "ask":
				return s.ask(t, d)
			}
			d.Fatalf(t, "no such command: %s", d.Cmd)
			return ""
		})
	})
}

type scenario struct {
	rules  map[string]signal.Rule
	series *memstore.Server
}

func (s *scenario) declare(t *testing.T, d *datadriven.TestData) string {
	file, err := config.Read("rule", []byte("backends: [{name: default, url: 'http://x'}]\nrules:\n- "+strings.ReplaceAll(strings.TrimSpace(d.Input), "\n", "\n  ")))
	require.NoError(t, err)
	own := file.Rules[len(file.Rules)-1]
	s.rules[own.Name] = own.Rule
	var out strings.Builder
	for _, p := range own.Problems {
		fmt.Fprintln(&out, p)
	}
	return out.String()
}

func (s *scenario) ask(t *testing.T, d *datadriven.TestData) string {
	var name string
	var servers, namespaces []string
	var at, each []int
	d.ScanArgs(t, "rule", &name)
	rule, known := s.rules[name]
	if !known {
		d.Fatalf(t, "no rule %s", name)
	}
	rule.MaxAge, rule.Follow, rule.Exporters = 15*time.Second, 0, nil
	d.MaybeScanArgs(t, "maxAge", &rule.MaxAge)
	d.MaybeScanArgs(t, "exporters", &rule.Exporters)
	if d.MaybeScanArgs(t, "servers", &servers) {
		rule.Sources = slices.DeleteFunc(slices.Clone(rule.Sources), func(s signal.Source) bool { return !slices.Contains(servers, s.Server) })
	}
	d.MaybeScanArgs(t, "for", &namespaces)
	d.MaybeScanArgs(t, "at", &at)
	a := asker{t: t, data: d, series: s.series, table: signal.NewTable(rule)}
	d.MaybeScanArgs(t, "live", &a.live)
	d.MaybeScanArgs(t, "later", &a.later)
	if d.HasArg("past") {
		a.read(strings.Join(rule.Queries(true, namespaces...), " or "), at[0])
	}
	for _, scrape := range at {
		a.read(rule.Query(namespaces...), scrape)
	}
	if !d.MaybeScanArgs(t, "each", &each) {
		return a.answers()
	}
	var out strings.Builder
	shown := ""
	for scrape := each[0]; scrape <= each[1]; scrape++ {
		a.read(rule.Query(namespaces...), scrape)
		if answers := a.answers(); answers != shown {
			fmt.Fprintf(&out, "from scrape %d:\n%s", scrape, answers)
			shown = answers
		}
	}
	return out.String()
}

// asker reads the answers of one rule, one after another.
type asker struct {
	t       *testing.T
	data    *datadriven.TestData
	live    []string
	later   time.Duration
	series  *memstore.Server
	table   *signal.Table
	dropped map[signal.Reason]int
	now     time.Time
}

func (a *asker) read(promql string, scrape int) {
	evaluated := first.Add(time.Duration(scrape) * scrapeEvery)
	vector, err := a.series.Query(a.t.Context(), promql, evaluated) // fails on a warning
	if err != nil {
		a.data.Fatalf(a.t, "%s: %v", promql, err)
	}
	a.now = evaluated.Add(time.Hour)
	sample := signal.Sampler()
	var samples []signal.Sample
	for _, s := range vector {
		samples = append(samples, sample(s.Labels, s.Value))
	}
	a.table, a.dropped = a.table.Read(samples, signal.Reading{Evaluated: evaluated, Now: a.now})
}

// answers answers each line of the input, and prints what was dropped.
func (a *asker) answers() string {
	table, now := a.table, a.now.Add(a.later)
	if a.live != nil {
		table = table.Among(func(_, pod string) (time.Time, bool) { return since(a.t, a.live, pod) })
	}
	var out strings.Builder
	for line := range strings.Lines(a.data.Input + "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		subject, text, _ := strings.Cut(rest, " ")
		selector, wrong := k8slabels.Parse(text)
		if kind != "pods" && wrong != nil {
			a.t.Fatal(wrong)
		}
		var answer signal.Answer
		var err error
		switch kind {
		case "pods":
			namespace, _, _ := strings.Cut(rest, "/")
			pods := strings.Fields(strings.ReplaceAll(rest, namespace+"/", ""))
			answer, err = table.Pods(namespace, pods, k8slabels.Everything(), now, "the pods")
		case "pod":
			namespace, pod, _ := strings.Cut(subject, "/")
			answer, err = table.Pod(signal.Key{Namespace: namespace, Pod: pod}, selector, now)
		case "namespace":
			answer, err = table.Namespace(subject, selector, now)
		case "external":
			answer, err = table.External(subject, selector, now)
		default:
			a.data.Fatalf(a.t, "no such question: %s", line)
		}
		fmt.Fprintf(&out, "%s: %s\n", line, a.text(answer, err, now))
	}
	for _, r := range signal.Reasons() {
		if n := a.dropped[r]; n > 0 {
			fmt.Fprintf(&out, "dropped: %d %s\n", n, r)
		}
	}
	return out.String()
}

func (a *asker) text(answer signal.Answer, err error, now time.Time) string {
	if err != nil {
		if a.data.HasArg("why") {
			return err.Error()
		}
		return "none"
	}
	text := strconv.FormatFloat(answer.Value, 'g', 9, 64)
	if answer.Pods > 1 {
		text += fmt.Sprintf(" of %d pods", answer.Pods)
	}
	if answer.Declared > 0 {
		text += fmt.Sprintf(", %d declared", answer.Declared)
	}
	if age := now.Sub(answer.Time); age != 0 {
		text += fmt.Sprintf(", %s old", age)
	}
	return text
}

// since finds a pod among "POD" and "POD@SCRAPE".
func since(t *testing.T, live []string, pod string) (time.Time, bool) {
	for _, word := range live {
		name, scrape, dated := strings.Cut(word, "@")
		switch {
		case name == pod && dated:
			n, err := strconv.Atoi(scrape)
			require.NoError(t, err)
			return first.Add(time.Hour + time.Duration(n)*scrapeEvery), true
		case name == pod:
			return time.Time{}, true
		}
	}
	return time.Time{}, false
}
