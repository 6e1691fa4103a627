package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// docAge stands for the configured maximum age, which no page shows.
const docAge = time.Minute

const signalsIntroduction = `What an HPA can scale on with no configuration. Manifests are in [hpa.md](hpa.md); [002-signals](internals/002-signals.md) defines what counts as missing. Every target below has its source: start with it
and replace it by the result of your own load test.

**How several series become one number.** Series that differ only in labels not listed are duplicates (two scrape jobs, two replicas of
Prometheus); the largest is used. A pod's parts, and then a workload's pods, are aggregated as the table shows. Of a server's old and new
metric name the first that a pod has is used. vLLM and SGLang under Ray are read as well.

**External metrics** sum or average over the namespace. Choose with the metric's selector: by any label of the series (of a percentile: namespace, pod and the labels in its table), or by
` + "`gpuscale_source`" + `, which is the server's name in the tables. A series marked *gateway* is about requests its servers count too:
it is left out wherever one of those servers has series of its own.

**Scale to zero.** The series of pods end with the pods. Scale on the queue of a gateway, as an External metric selected
by ` + "`gpuscale_source`" + `, ` + "`inference_pool`" + ` or ` + "`model`" + `. Where a table shows *absent: 0*, a missing series means 0 under the given condition;
everywhere else the answer is an error. A custom rule (` + "`like: queue_depth`" + `, ` + "`activation: 5`" + `)
keeps a trickle from activating a workload.
`

const gpuUtil = `
## Why DCGM_FI_DEV_GPU_UTIL is a poor signal

- It is the share of time in which *any* kernel ran, not how much of the GPU it used (NVML's definition; GKE's documentation calls it a
  duty cycle). One small kernel in a loop gives 100.
- A decoding LLM gives nearly 100 from its first request to its last (as llm-d's guides note), so an HPA on it scales to
  ` + "`maxReplicas`" + ` and stays there.
- Under MIG the driver has no value for a MIG device, and on a shared GPU every pod gets the whole GPU's value.
- It does not include queues. Between "busy" and "hopelessly late" it does not change.

gpuscale does not read it. ` + "`gpu_busy`" + ` comes from the profiling counters, per MIG device, and shares the first two weaknesses: for servers that
batch, scale on ` + "`queue_depth` and `requests_running`" + `.
`

// ownRules is read by a test of adapter/config: each of its rules has to load.
const ownRules = `
## Rules of your own

Rules in the adapter's configuration add to the built-in ones; one with the same name replaces it. A source is a series, how it is read
(plain, as a rate, as a percentile, divided by another), and what NaN and a missing series mean. There is no template language.

` + "```yaml" + `
# adapter.yaml
rules:
# A built-in rule with another threshold, window or range.
- {name: queue_that_wakes, like: queue_depth, activation: 5}
- {name: ttft_p95_5m, like: ttft_p95, window: 5m}

# A gauge of the scraped pod's own. Sources are tried in order, pod by pod.
- name: batch_backlog
  subject: target            # exported: the series names another pod; namespace: it belongs to none
  sources:
  - metric: batch_queue_length
    matchers: [{label: priority, op: "!=", value: low}]
    fleeting: true           # queues come and go: one that a later scrape of the page lacks has ended, and is not stale
  - metric: batch_queue_len  # its old name
  identity: [queue]          # labels that distinguish parts of one pod; unset: all but those that scraping adds
  perPod: sum
  perWorkload: sum
  atZero: 0                  # for a workload scaled to zero

# A percentile, and what NaN means: no request waited, if there was none.
- name: rank_time_p99
  subject: target
  window: 2m
  wide: 5m                   # in its place while it holds fewer than two scrapes
  maximum: 600
  sources:
  - metric: rank_time_seconds
    form: quantile
    quantile: 0.99
    identity: [model]
    idle: {value: 0, while: [{metric: rank_queue}, {metric: rank_running}]}
  perPod: max
  perWorkload: max

# A queue kept by a broker that outlives the workers. Its series begins with the
# first message; while the broker is up, a missing series means an empty queue.
- name: jobs_waiting
  subject: target
  sources:
  - metric: broker_messages_ready
    matchers: [{label: queue, op: "=", value: jobs}]
    identity: [queue]
    absent: {value: 0, while: {metric: up, matchers: [{label: job, op: "=", value: broker}]}, is: 1}
  perPod: sum
  perWorkload: sum
  activation: 2
` + "```" + `
`

// signalsPage is docs/signals.md.
func signalsPage(rules []signal.Rule, abouts []signal.About) string {
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
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n**Use.** %s\n", a.Signal, a.Meaning, a.Use)
		list(&b, "Targets", len(a.Targets), func(n int) string { return a.Targets[n].Value + ": " + a.Targets[n].From + "." })
		list(&b, "Limits", len(a.Limits), func(n int) string { return a.Limits[n] })
		b.WriteString("\n| server | read as | distinguished by | notes |\n|---|---|---|---|\n")
		sources := rules[i].Sources
		for from, to := 0, 0; from < len(sources); from = to {
			var read []string
			first := cells(rules[i], sources[from])
			for to = from; to < len(sources) && cells(rules[i], sources[to]) == first; to++ {
				read = append(read, readAs(rules[i], sources[to]))
			}
			row(&b, first.server, strings.Join(read, ", "), first.identity, first.notes)
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
		}
	}
	return out
}

func list(b *strings.Builder, title string, length int, item func(int) string) {
	if length == 0 {
		return
	}
	fmt.Fprintf(b, "\n**%s.**\n\n", title)
	for n := range length {
		b.WriteString("- " + item(n) + "\n")
	}
}

// aboutSource is what a row has of a source, apart from its series: sources that agree share a
// row.
type aboutSource struct{ server, identity, notes string }

func cells(r signal.Rule, s signal.Source) aboutSource {
	return aboutSource{cmp.Or(s.Server, "gpuscale"), identity(r, s), notes(r, s)}
}

// readAs describes the query in a few words.
func readAs(r signal.Rule, s signal.Source) string {
	name := "`" + s.Metric + narrowing(s) + "`"
	if s.Over != "" {
		name += " / `" + s.Over + "`"
	}
	switch s.Form {
	case signal.Quantile:
		name = fmt.Sprintf("p%g of %s over %s", s.Quantile*100, name, short(r.Window))
	case signal.Rate:
		name = fmt.Sprintf("growth of %s over %s", name, short(r.Window))
	}
	if s.Scale != 0 {
		name += fmt.Sprintf(" × %g", s.Scale)
	}
	return name
}

func narrowing(s signal.Source) string {
	if len(s.Matchers) == 0 {
		return ""
	}
	var all []string
	for _, m := range s.Matchers {
		all = append(all, m.String())
	}
	return "{" + strings.Join(all, ",") + "}"
}

func identity(r signal.Rule, s signal.Source) string {
	if s.Identity != nil {
		return strings.Join(s.Identity, " ")
	}
	return strings.Join(r.Identity, " ")
}

func notes(r signal.Rule, s signal.Source) string {
	var all []string
	if s.Gateway {
		all = append(all, "gateway")
	}
	if s.GatewayLabel != "" {
		all = append(all, "gateway if it has `"+s.GatewayLabel+"`")
	}
	if s.Idle != nil {
		var while []string
		for _, w := range s.Idle.While {
			while = append(while, "`"+w.Metric+"`")
		}
		all = append(all, fmt.Sprintf("NaN: %g if %s stayed 0 for %s%s, else missing", s.Idle.Value, strings.Join(while, " and "), short(r.Window), progress(s)))
	}
	if a := s.Absent; a != nil {
		is := "there"
		if a.Is != nil {
			is = fmt.Sprint(*a.Is)
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
	return ", or the first of them and `" + s.Idle.Progress.Metric + "` grew"
}

// short writes a duration without its zero parts.
func short(d time.Duration) string {
	return strings.TrimSuffix(d.String(), "0s")
}
