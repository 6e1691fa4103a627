package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/sandbox/build"
)

const docIntro = `# What the HPA does when Prometheus is wrong

Written by ` + "`TestNeverLie`" + ` of sandbox/e2e (` + "`make never-lie`" + `), which fails if what it finds about gpuscale-adapter differs from this page.

The real HPA controller of Kubernetes 1.37 reads ten workloads once a second, without stabilisation window or rate limit:
one for each kind of metric and target, each once through either adapter. gpuscale-adapter and prometheus-adapter v0.12.0 answer
at the same moment from the same Prometheus. The load requires %d replicas all the time, so any change is wrong. Prometheus,
or what it scrapes, fails in one way after the other. Each failure lasts until our HPAs have noticed it and four syncs more.

- **%[1]d**: the replicas were kept, by a number that is right.
- **blind**: the replicas were kept, and the HPA has ` + "`ScalingActive: False`" + ` with a message as below.
- **down to N**, **up to N**: the HPA acted on invalid data. **lost**: it did not recover within 20 s of the failure's end.

Both serve the same two metrics of one series: the sum over the pods, for AverageValue, and the average, for Value. prometheus-adapter's
configuration is that of its documentation (` + "`sum(…) by (…)`" + `, ` + "`avg(…) by (…)`" + `); its Object metrics describe the Namespace, since pods' series do
not have a Deployment's name. It runs with ` + "`--client-qps=200`" + `. gpuscale-adapter has ` + "`maxAge: 5s`" + `.

`

const docHealthy = `
## What is well is not refused

A refusal keeps the replicas, so while all is well it is a fault too. Each of these workloads has an HPA on the sum of its six pods' work, the
strictest answer: one pod that is unknown refuses it. All were played at once, for at least %d syncs of the controller. Two seconds stand for 15, in
scrapes and in ` + "`maxAge`" + `; that the age limit follows the scrape interval by itself is ` + "`TestOneScrapeMissedRefusesNothing`" + `, with real intervals, in Prometheus' own engine.

| while all is well | refused |
|---|---|
`

// docRefused are the refusals that stay, each with its reason.
const docRefused = `
These are refused, and why:

| while all is well | refused | because |
|---|---|---|
| no server of a workload has reported yet | until the first does | nothing is known; a workload of which one has reported goes by that one |
| a server restarts in place | until it reports again, 10 minutes at most | it had a queue and has one now: how long it is, only the server knows |
| two scrapes of a pod in a row fail | until the next | the age limit is two and a half scrapes |
| Prometheus is away for longer than the age limit | until it is back | the last numbers are old |
| an adapter starts while Prometheus is away | until it is back | it has no number yet; it is ready, and so is the API service |
| a Thanos store is away | until it is back, or is not asked any more | a warning does not say whose series are missing |
| TensorRT-LLM, TEI and Dynamo before their first request | until the first request | they have no series before it |
| ` + "`ttft_p95`" + ` of an idle Triton, of one long generation on TensorRT-LLM | until the next request | their pages do not show that nothing waits |
| an endpoint picker of an empty pool misses a scrape | until the next | "no queue" needs the pool's size of the same scrape |
| a GPU exporter in a namespace that is not in ` + "`exporterNamespaces`" + ` | until it is listed | a tenant could report GPUs of others ([adapter.md](../adapter.md#access-control)) |
`

const docEnd = `
## What is not in the table

A pod that reports 0 is trusted: a server that has restarted and lost its queue looks like one that has completed it. The HPA's
stabilisation window (five minutes by default), which this test turns off, protects against that.

When Prometheus and adapter both start without data, a pod that never reported counts as one that
has not begun to serve ([002-signals](002-signals.md)).
`

// examples are the faults whose message the page shows.
var examples = []string{"down: connection refused", "NaN from half the pods", "half the targets gone"}

// checkDoc compares gpuscale-adapter's results with docs/internals/never-lie.md; with
// -update it writes the page.
func checkDoc(t *testing.T, found []finding) {
	t.Helper()
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "docs", "internals", "never-lie.md")
	text := document(found)
	t.Logf("found:\n%s", text)
	if *update {
		if t.Failed() {
			t.Error("docs/internals/never-lie.md is not written: the test has failed")
			return
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; `make never-lie` writes it", err)
	}
	for _, s := range shapes() {
		if !strings.Contains(string(have), s.row()) {
			t.Errorf("docs/internals/never-lie.md does not have: %s", s.row())
		}
	}
	for _, f := range faultsIn(found) {
		if line := row(found, f, ours); !strings.Contains(string(have), line) {
			t.Errorf("docs/internals/never-lie.md differs from what was found (`make never-lie` writes it again): %s", line)
		}
	}
}

// document is docs/internals/never-lie.md.
func document(found []finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, docIntro, replicas)
	b.WriteString("| Prometheus | adapter |")
	for _, c := range cells() {
		fmt.Fprintf(&b, " %s |", c)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(cells())) + "\n")
	for _, f := range faultsIn(found) {
		for _, a := range adapters() {
			b.WriteString(row(found, f, a) + "\n")
		}
	}
	fmt.Fprintf(&b, "\nOf %d HPAs under each adapter, gpuscale's scaled down %d and v0.12.0's %d; up, gpuscale's %d and v0.12.0's %d.\n",
		len(found)/len(adapters()), scaledDown(found, ours), scaledDown(found, theirs), scaledUp(found, ours), scaledUp(found, theirs))
	b.WriteString("\n## The HPA's message\n\nExamples of the message of `ScalingActive: False` on gpuscale's Object metric, AverageValue:\n\n")
	for _, x := range found {
		if x.adapter == ours && x.cell == cells()[1] && !x.hpa.active && slices.Contains(examples, x.fault) {
			fmt.Fprintf(&b, "- %s: %s\n", x.fault, sentence(x.hpa.message))
		}
	}
	fmt.Fprintf(&b, docHealthy, healthySyncs)
	for _, s := range shapes() {
		b.WriteString(s.row() + "\n")
	}
	return b.String() + docRefused + docEnd
}

// sentence is the adapter's part of the controller's message.
func sentence(message string) string {
	const before = "custom metrics API: "
	if i := strings.LastIndex(message, before); i >= 0 {
		message = message[i+len(before):]
	}
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(message, "prometheus:9090")
}

// row of the table, without the parts that differ between runs.
func row(found []finding, fault string, a adapter) string {
	name, title := fault, "gpuscale"
	if a == theirs {
		name, title = "", "v0.12.0"
	}
	line := fmt.Sprintf("| %s | %s |", name, title)
	for _, c := range cells() {
		for _, x := range found {
			if x.adapter == a && x.fault == fault && x.cell == c {
				line += " " + x.text() + " |"
			}
		}
	}
	return line
}

func (x finding) text() string {
	var parts []string
	if x.least < replicas {
		parts = append(parts, fmt.Sprintf("**down to %d**", x.least))
	}
	if x.most > replicas {
		parts = append(parts, fmt.Sprintf("**up to %d**", x.most))
	}
	switch {
	case len(parts) == 0 && x.hpa.active:
		parts = append(parts, fmt.Sprint(replicas))
	case !x.hpa.active:
		parts = append(parts, "blind")
	}
	if !x.recovered {
		parts = append(parts, "**lost**")
	}
	return strings.Join(parts, ", ")
}

func faultsIn(found []finding) (names []string) {
	for _, x := range found {
		if len(names) == 0 || names[len(names)-1] != x.fault {
			names = append(names, x.fault)
		}
	}
	return names
}

func scaledDown(found []finding, a adapter) (n int) {
	for _, x := range found {
		if x.adapter == a && x.least < replicas {
			n++
		}
	}
	return n
}

func scaledUp(found []finding, a adapter) (n int) {
	for _, x := range found {
		if x.adapter == a && x.most > replicas {
			n++
		}
	}
	return n
}
