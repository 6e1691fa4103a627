package alerts_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

var update = flag.Bool("update", false, "write the table in docs/runbooks/README.md again")

var (
	runbooks = filepath.Join("..", "..", "docs", "runbooks")
	sections = []string{"What it means", "How bad it is", "Look here first", "Fix", "How it resolves", "False alarms"}
)

// page is a runbook.
type page struct{ name, text string }

func pages(t *testing.T) []page {
	t.Helper()
	files, err := os.ReadDir(runbooks)
	if err != nil {
		t.Fatal(err)
	}
	var all []page
	for _, f := range files {
		if f.Name() == "README.md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(runbooks, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page{strings.TrimSuffix(f.Name(), ".md"), string(text)})
	}
	return all
}

// after is how long an alert waits, in words.
func after(a alerts.Alert) string {
	if a.For == 0 {
		return "At once"
	}
	return "After " + model.Duration(a.For).String()
}

// fact is the line that each page begins with.
func fact(a alerts.Alert) string {
	line := fmt.Sprintf("Severity: %s. %s.", a.Severity, after(a))
	if a.Threshold != nil {
		line += fmt.Sprintf(" Threshold: %v (", *a.Threshold)
	}
	return line
}

// Each alert has its page, each page its alert, and both say the same of how bad it
// is and when it fires. All pages are of one form, and lead nowhere that is not there.
func TestRunbooks(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#]+)`)
	all := pages(t)
	for _, p := range all {
		a, ok := alerts.Find(p.name)
		if !ok {
			t.Errorf("%s.md is about no alert", p.name)
			continue
		}
		lines := strings.Split(p.text, "\n")
		if lines[0] != "# "+p.name || !strings.HasPrefix(lines[2], fact(a)) {
			t.Errorf("%s.md begins with %q, %q; want its name and %q", p.name, lines[0], lines[2], fact(a))
		}
		var titles []string
		for _, l := range lines {
			if title, ok := strings.CutPrefix(l, "## "); ok {
				titles = append(titles, title)
			}
		}
		if !slices.Equal(titles, sections) {
			t.Errorf("%s.md has %q", p.name, titles)
		}
		if len(blocks(p.text, "promql")) == 0 && len(blocks(p.text, "sh")) == 0 {
			t.Errorf("%s.md has nothing to look at", p.name)
		}
		for _, m := range links.FindAllStringSubmatch(p.text, -1) {
			if _, err := os.Stat(filepath.Join(runbooks, m[1])); err != nil {
				t.Errorf("%s.md: %v", p.name, err)
			}
		}
	}
	if len(all) != len(alerts.All()) {
		t.Errorf("%d pages for %d alerts", len(all), len(alerts.All()))
	}
}

const tableFrom, tableTo = "<!-- the table is written by go test ./dashboards/alerts -update -->\n", "<!-- end of the table -->\n"

// The list of all pages is what the alerts are.
func TestRunbookTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| alert | severity | for | threshold | why |\n|---|---|---|---|---|\n")
	for _, a := range alerts.All() {
		threshold := ""
		if a.Threshold != nil {
			threshold = fmt.Sprint(*a.Threshold)
		}
		fmt.Fprintf(&b, "| [%[1]s](%[1]s.md) | %s | %s | %s | %s |\n", a.Name, a.Severity, model.Duration(a.For), threshold, a.Why)
	}
	path := filepath.Join(runbooks, "README.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alerts.Parse([]byte(strings.Join(blocks(string(text), "yaml"), "\n"))); err != nil {
		t.Errorf("%s: the values shown: %v", path, err)
	}
	head, rest, ok := strings.Cut(string(text), tableFrom)
	table, tail, ended := strings.Cut(rest, tableTo)
	if !ok || !ended {
		t.Fatalf("%s has no place for the table", path)
	}
	if *update {
		if err := os.WriteFile(path, []byte(head+tableFrom+b.String()+tableTo+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != b.String() {
		t.Errorf("the table in %s is not what the code says: run go test ./dashboards/alerts -update", path)
	}
}

// blocks are the lines of a page's blocks of one kind.
func blocks(text, kind string) []string {
	var lines []string
	for _, part := range strings.Split(text, "```"+kind+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		lines = append(lines, strings.Split(strings.TrimSpace(block), "\n")...)
	}
	return lines
}

// scrapes are the series that Prometheus itself makes of a scrape.
var scrapes = []string{"", "up", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling"}

// A query on a page is one that Prometheus takes, over series that there are.
func TestRunbookQueries(t *testing.T) {
	n := 0
	for _, p := range pages(t) {
		for _, query := range blocks(p.text, "promql") {
			n++
			for _, name := range reads(t, query) {
				if _, ok := metric.Find(strings.TrimSuffix(name, "_bucket")); !ok && !slices.Contains(scrapes, name) {
					t.Errorf("%s.md asks for %s, which nobody emits: %s", p.name, name, query)
				}
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d queries", n)
	}
}

// A command on a page is one that the program has, with flags that it has. Programs
// are asked for their help, so they must be there: make prepare builds them.
func TestRunbookCommands(t *testing.T) {
	cache := filepath.Join("..", "..", ".cache", "sandbox")
	kubectl, err := filepath.Glob(filepath.Join(cache, "controlplane-*", "kubectl"))
	if err != nil || len(kubectl) == 0 {
		t.Skip("kubectl and our programs are not there: make prepare builds them")
	}
	programs := map[string]string{"kubectl": kubectl[0]}
	for _, p := range []string{"exporter", "adapter", "autoscaler"} {
		programs["gpuscale-"+p] = filepath.Join(cache, "programs", p)
		if _, err := os.Stat(programs["gpuscale-"+p]); err != nil {
			t.Skipf("%v: make prepare builds it", err)
		}
	}
	helps := map[string]string{}
	help := func(args ...string) string {
		key := strings.Join(args, " ")
		if _, ok := helps[key]; !ok {
			out, err := exec.CommandContext(t.Context(), programs[args[0]], append(args[1:], "--help")...).CombinedOutput()
			if err != nil {
				t.Errorf("%s --help: %v", key, err)
			}
			helps[key] = string(out)
		}
		return helps[key]
	}
	out, err := exec.CommandContext(t.Context(), programs["kubectl"], "options").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	global, n := string(out), 0
	for _, p := range pages(t) {
		for _, line := range blocks(p.text, "sh") {
			outer, inner, _ := strings.Cut(line, " -- ")
			for _, command := range []string{outer, inner} {
				words := strings.Fields(command)
				if len(words) == 0 || words[0] == "curl" {
					continue
				}
				words[0] = strings.TrimPrefix(words[0], "/") // its place in the image
				if programs[words[0]] == "" {
					t.Errorf("%s.md: %s: no program of ours, nor kubectl", p.name, command)
					continue
				}
				n++
				path, flags := commandOf(words)
				text := help(path...)
				if words[0] == "kubectl" {
					text += global
				}
				if !strings.Contains(text, strings.Join(path, " ")) {
					t.Errorf("%s.md: %s: there is no %q", p.name, command, path)
				}
				for _, f := range flags {
					if !hasFlag(text, f) {
						t.Errorf("%s.md: %s: no flag %s", p.name, command, f)
					}
				}
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d commands", n)
	}
}

// commandOf splits a command line into the program with its subcommands, which are
// the words before any argument, and its flags without values.
func commandOf(words []string) (path, flags []string) {
	argument := regexp.MustCompile(`[A-Z/.:]`)
	path = words[:1:1]
	done := false
	for i := 1; i < len(words); i++ {
		w := words[i]
		switch {
		case strings.HasPrefix(w, "-"):
			name, _, _ := strings.Cut(w, "=")
			flags = append(flags, name)
			if w == "-n" {
				i++ // its value
				continue
			}
			done = len(path) > 1 || !slices.Contains(words, "-n")
		case done || argument.MatchString(w):
			done = true
		case words[0] == "kubectl":
			path, done = append(path, w), true // what follows is a kind or a name
		default:
			path = append(path, w)
		}
	}
	return path, flags
}

// hasFlag reports whether a help text lists a flag.
func hasFlag(help, name string) bool {
	return regexp.MustCompile(`(?m)(^|[\s,])` + regexp.QuoteMeta(name) + `($|[\s=,\[])`).MatchString(help)
}

// The test of commands finds what is wrong.
func TestCommandOf(t *testing.T) {
	for line, want := range map[string]string{
		"kubectl -n gpuscale-system logs POD --previous --tail=50":          "[kubectl logs] [-n --previous --tail]",
		"kubectl get --raw /readyz?verbose":                                 "[kubectl get] [--raw]",
		"gpuscale-adapter --config config.yaml --check":                     "[gpuscale-adapter] [--config --check]",
		"gpuscale-autoscaler explain pod NAMESPACE/NAME --url http://a:942": "[gpuscale-autoscaler explain pod] [--url]",
	} {
		path, flags := commandOf(strings.Fields(line))
		if got := fmt.Sprint(path, " ", flags); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	help := "Flags:\n  -o, --output string   text\n      --all-pods=false:\n"
	for flag, want := range map[string]bool{"--output": true, "-o": true, "--out": false, "--all-pods": true, "--all": false, "--put": false} {
		if hasFlag(help, flag) != want {
			t.Errorf("%s: %v", flag, !want)
		}
	}
}
