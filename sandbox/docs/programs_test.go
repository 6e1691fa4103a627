package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// programs are the programs that pages use, in one folder. No control plane runs.
type programs struct {
	root, dir, bin string
	helps          map[string]string
}

var shared = testenv.NewShared(newPrograms)

func TestMain(m *testing.M) { shared.Main(m) }

func needPrograms(t *testing.T) *programs {
	t.Helper()
	if _, err := chart.Tool(root(t), "helm"); err != nil {
		t.Skip(err) // make test builds it before
	}
	return shared.Get(t)
}

func (p *programs) Stop() { _ = os.RemoveAll(p.dir) }

func newPrograms(ctx context.Context) (_ *programs, err error) {
	p := &programs{helps: map[string]string{}}
	if p.root, err = build.FindRoot(); err != nil {
		return nil, err
	}
	helm, err := chart.Tool(p.root, "helm")
	if err != nil {
		return nil, err
	}
	theirs, err := build.All(ctx, build.Options{Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	ours, err := build.Programs(ctx, build.Options{Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "docs-"); err != nil {
		return nil, err
	}
	p.bin = filepath.Join(p.dir, "bin")
	if err := os.Mkdir(p.bin, 0o700); err != nil {
		return nil, err
	}
	links := map[string]string{"kubectl": theirs.Program("kubectl"), "promtool": theirs.Promtool, "helm": helm}
	for _, name := range []string{"gpuscale-exporter", "gpuscale-adapter", "gpuscale-autoscaler", "gpuscale-agent", "gpuscale-report", "gpuscale-dashboards"} {
		links[name] = filepath.Join(ours, name)
	}
	links["kubectl-gpuscale"] = links["gpuscale-report"]
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(p.bin, name)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// run runs a command in the checkout, without the environment of the user who runs the tests.
func (p *programs) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir, cmd.Env = p.root, []string{"PATH=" + p.bin + ":" + os.Getenv("PATH"), "HOME=" + p.dir}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// help returns a program's help output; each is read once.
func (p *programs) help(ctx context.Context) Help {
	return func(program string, subcommands []string) (string, bool) {
		key := program + " " + strings.Join(subcommands, " ")
		if text, ok := p.helps[key]; ok {
			return text, true
		}
		text, err := p.run(ctx, program, append(slices.Clone(subcommands), "--help")...)
		if err == nil && program == "kubectl" {
			var options string
			options, err = p.run(ctx, program, "options")
			text += options
		}
		if err != nil {
			return "", false
		}
		p.helps[key] = text
		return text, true
	}
}

// goRun matches how contributors run a program that users have installed.
var goRun = regexp.MustCompile(`^go run \./(exporter|adapter|autoscaler|agent|report|dashboards)\b`)

// plugin is how users of kubectl start its plugin.
var plugin = regexp.MustCompile(`^kubectl gpuscale\b`)

// judged lists the programs whose flags are compared with their --help.
var judged = []string{"kubectl", "kubectl-gpuscale", "helm", "gpuscale-exporter", "gpuscale-adapter", "gpuscale-autoscaler", "gpuscale-agent", "gpuscale-report", "gpuscale-dashboards"}

// check returns an error if a command names a subcommand or flag that does not exist. internal/vocabulary
// checks make targets and packages.
func (p *programs) check(ctx context.Context, text string) error {
	segments, err := Words(plugin.ReplaceAllString(goRun.ReplaceAllString(text, "gpuscale-$1"), "kubectl-gpuscale"))
	if err != nil {
		return nil // a here-document
	}
	for _, words := range segments {
		if at := slices.Index(words, "--"); words[0] == "kubectl" && at > 0 && at+1 < len(words) { // the command of kubectl exec
			inner := append([]string{path.Base(words[at+1])}, words[at+2:]...)
			segments = append(segments, inner)
		}
	}
	for _, words := range segments {
		if slices.Contains(judged, words[0]) && len(words) > 1 {
			if err := checkFlags(words, p.help(ctx)); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestCommands checks every command of the pages, including those in sentences.
func TestCommands(t *testing.T) {
	p, n := needPrograms(t), 0
	for name, page := range tree(t, ForUsers).Pages {
		for _, c := range commands(page) {
			n++
			if err := errors.Join(c.Check(), p.check(t.Context(), c.Text)); err != nil {
				t.Errorf("%s:%d: %s: %v", name, c.Line, c.Text, err)
			}
		}
		for _, s := range page.Spans {
			if strings.Contains(s.Text, "…") {
				continue // not a complete command
			}
			if err := p.check(t.Context(), s.Text); err != nil {
				t.Errorf("%s:%d: %s: %v", name, s.Line, s.Text, err)
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d commands were found", n)
	}
	for _, wrong := range []string{
		"kubectl get nodes --outptu wide", "gpuscale-autoscaler explain pod chat/vllm-2 --urll x", "gpuscale-report --sinc 1h top", "gpuscale-autoscaler explains", "helm instal x", "kubectl exec ds/x -- /gpuscale-exporter check --kubernets",
	} {
		if p.check(t.Context(), wrong) == nil {
			t.Errorf("no error for %q", wrong)
		}
	}
}

// readers lists the programs that read the files in pages, by file name.
var readers = []struct {
	names   []string // patterns of path.Match
	command []string // FILE is replaced by the file; empty if there is only a parser
}{
	{[]string{"adapter.yaml", "adapter-*.yaml", "prometheus-adapter.yaml"}, []string{"gpuscale-adapter", "--check", "--config", "FILE"}},
	{[]string{"autoscaler.yaml", "autoscaler-*.yaml"}, []string{"gpuscale-autoscaler", "--check", "--config", "FILE"}},
	{[]string{"agent.yaml"}, []string{"gpuscale-agent", "--check", "--config", "FILE"}},
	{[]string{"mine.yaml", "values.yaml", "values-*.yaml"}, []string{"helm", "template", "gpuscale", "deploy/chart/gpuscale", "--namespace", "gpuscale-system", "--values", "FILE"}},
	{[]string{"prometheus.yaml", "prometheus.yml"}, []string{"promtool", "check", "config", "--syntax-only", "FILE"}},
	{[]string{"rules.yaml"}, []string{"promtool", "check", "rules", "FILE"}},
	{[]string{"gpu-operator-values.yaml"}, nil},
}

var (
	theirFile    = regexp.MustCompile(`configFile: \S+`)
	namesBackend = regexp.MustCompile(`(?m)^(?:prometheus|backends):`)
)

// read checks a file in a page with the program that reads it.
func (p *programs) read(ctx context.Context, b Block) error {
	name := b.FileName()
	file := filepath.Join(p.dir, "read-"+name)
	text := theirFile.ReplaceAllString(b.Text, "configFile: "+filepath.Join(p.dir, "prometheus-adapter.yaml"))
	if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(filepath.Join(p.dir, "prometheus-adapter.yaml"), []byte("rules: []\n"), 0o600)); err != nil {
		return err
	}
	if kind, _ := b.Kind(); kind == Counters || strings.HasSuffix(name, ".csv") {
		// The exporter would report that this machine has no GPU, so only the collectors are checked.
		out, _ := p.run(ctx, "gpuscale-exporter", "check", "--collectors", file)
		if !regexp.MustCompile(`counters +ok`).MatchString(out) {
			return fmt.Errorf("the exporter does not take it: %s", out)
		}
		return nil
	}
	for _, r := range readers {
		if !slices.ContainsFunc(r.names, func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
			continue
		}
		if r.command == nil {
			return yaml.Unmarshal([]byte(b.Text), &map[string]any{})
		}
		args := slices.Clone(r.command)
		args[slices.Index(args, "FILE")] = file
		if args[0] == "gpuscale-adapter" && !namesBackend.MatchString(b.Text) {
			args = append(args, "--prometheus-url", "http://prometheus:9090") // a part of a file
		}
		if out, err := p.run(ctx, args[0], args[1:]...); err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
		return nil
	}
	return fmt.Errorf("no known program reads a file %s", name)
}

// TestFiles checks every file and query that a page shows. It also checks that mistakes in them are found.
func TestFiles(t *testing.T) {
	p := needPrograms(t)
	for name, page := range tree(t, ForUsers).Pages {
		for _, b := range page.Blocks {
			kind, err := b.Kind()
			switch {
			case kind == File || kind == Counters:
				err = p.read(t.Context(), b)
			case kind == Query:
				err = b.CheckQueries()
			case kind == JSON:
				err = b.CheckJSON()
			}
			if err != nil {
				t.Errorf("%s:%d: %v", name, b.Line, err)
			}
		}
	}
	for text, want := range map[string]string{
		fenced("yaml", "# adapter.yaml\nintervall: 1s"):                `unknown field "intervall"`,
		fenced("yaml", "# autoscaler.yaml\npolicy: {maxDrain: 1}"):     "maxDrain",
		fenced("yaml", "# values.yaml\nexporter: {enabld: true}"):      "enabld",
		fenced("yaml", "# other.yaml\na: 1"):                           "no known program reads",
		fenced("csv", "DCGM_FI_DEV_NO_SUCH, gauge, nothing."):          "DCGM_FI_DEV_NO_SUCH",
		fenced("yaml", "# rules.yaml\ngroups: [{name: a, rulez: []}]"): "rulez",
		fenced("yaml", "# prometheus.yaml\nscrape_config: []"):         "scrape_config",
		fenced("yaml", "# agent.yaml\nfreezes: true"):                  "freezes",
		fenced("yaml", "# gpu-operator-values.yaml\na: 1\na: 2"):       "already defined",
	} {
		if got := fmt.Sprint(p.read(t.Context(), blockOf(t, text))); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
}
