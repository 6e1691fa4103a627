package main

import (
	"fmt"
	"strings"
	"time"
)

// oursTitle names our own rows.
const oursTitle = "gpuscale-adapter"

// interval between two queries of a rule; the configuration's default.
const interval = "5s"

// ours is gpuscale-adapter with built-in rules and default settings, except the
// timeouts that a loaded machine needs.
func ours(path, prometheus string, timeout, maxAge time.Duration) program {
	return program{
		title: oursTitle, path: path,
		config: fmt.Sprintf("prometheus:\n  url: %s\n  timeout: %s\nmaxAge: %s\ninterval: %s\n", prometheus, timeout, maxAge, interval),
		args:   func(_ *lab, kubeconfig string) []string { return []string{"--kubeconfig=" + kubeconfig} },
	}
}

// peer is prometheus-adapter with one rule for each signal, as in its own
// documentation. Its limit of 5 LISTs a second is raised, or it would only wait.
func peer(path, prometheus string, f fleet) program {
	return program{
		title: "prometheus-adapter", path: path, config: peerConfig(f),
		args: func(_ *lab, kubeconfig string) []string {
			return []string{"--lister-kubeconfig=" + kubeconfig, "--prometheus-url=" + prometheus, "--client-qps=1000", "--client-burst=1000"}
		},
	}
}

func peerConfig(f fleet) string {
	var b strings.Builder
	for _, kind := range []string{"rules", "externalRules"} {
		fmt.Fprintf(&b, "%s:\n", kind)
		for _, s := range f.signals {
			fmt.Fprintf(&b, `- seriesQuery: '%s{namespace!="",pod!=""}'
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  name: {as: %q}
  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'
`, s.series, s.signal)
		}
	}
	return b.String()
}
