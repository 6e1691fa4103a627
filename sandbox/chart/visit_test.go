package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Exit codes that docs/doctor.md documents.
const (
	exitNothing  = 0 // nothing is wrong
	exitWarnings = 3 // warnings, or something is unknown
	exitFaults   = 4
)

// documentSchema is the schema of the JSON document.
const documentSchema = "gpuscale.io/doctor/v1"

// report is that document.
type report struct {
	Schema   string
	Nothing  string
	Checks   []check
	Faults   int
	Warnings int
	Unknown  int
}

type check struct {
	ID, Title, Result, Why string
	Findings               []finding
	More                   int
}

type finding struct {
	Severity, Object, Seen, Means, Fix string
	Commands                           []string
}

func (f finding) String() string {
	return fmt.Sprintf("%s %s: seen: %s; means: %s; fix: %s %q", f.Severity, f.Object, f.Seen, f.Means, f.Fix, f.Commands)
}

// visit is one run of doctor and its report.
type visit struct {
	report
	code        int
	out, errors string
	took        time.Duration
}

// runTimeout is the timeout of one run; it is much longer than a run takes.
const runTimeout = time.Minute

// ask runs doctor with a kubeconfig, for JSON output.
func (b *plane) ask(ctx context.Context, kubeconfig string, args ...string) (visit, error) {
	v, err := b.run(ctx, kubeconfig, slices.Concat(b.report(), []string{"-o", "json"}, args)...)
	if err != nil {
		return v, err
	}
	return v, v.read()
}

// read parses the document and checks its consistency.
func (v *visit) read() error {
	d := json.NewDecoder(strings.NewReader(v.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&v.report); err != nil {
		return fmt.Errorf("exit %d: reading the document: %w: %s%s", v.code, err, v.out, v.errors)
	}
	return v.check()
}

// check tests what is true of every document: each finding is complete, and counts and exit code match the
// findings.
func (v *visit) check() error {
	var errs []error
	counts := map[string]int{}
	for _, c := range v.Checks {
		if (c.Result == "unknown" || c.Result == "skipped") && c.Why == "" {
			errs = append(errs, fmt.Errorf("check %s is %s without a reason", c.ID, c.Result))
		}
		counts[c.Result+" check"]++
		for _, f := range c.Findings {
			counts[f.Severity]++
			if f.Object == "" || f.Seen == "" || f.Means == "" || f.Fix == "" {
				errs = append(errs, fmt.Errorf("check %s: a finding that leaves something out: %s", c.ID, f))
			}
		}
	}
	want := exitNothing
	switch {
	case counts["fault"] > 0:
		want = exitFaults
	case counts["warning"]+counts["unknown check"] > 0:
		want = exitWarnings
	}
	if v.Schema != documentSchema || v.Faults != counts["fault"] || v.Warnings != counts["warning"] || v.Unknown != counts["unknown check"] || v.code != want {
		errs = append(errs, fmt.Errorf("schema %s, exit %d (want %d), %d faults, %d warnings, %d unknown of %v: %s",
			v.Schema, v.code, want, v.Faults, v.Warnings, v.Unknown, counts, v.errors))
	}
	return errors.Join(errs...)
}

// ranks orders results from best to worst. A skipped check is no worse than an ok one; an unknown one is.
var ranks = []string{"ok", "skipped", "unknown", "warning", "fault"}

func rank(result string) int {
	if result == "skipped" {
		result = "ok"
	}
	return slices.Index(ranks, result)
}

// of returns a check by its id.
func (v visit) of(id string) check {
	for _, c := range v.Checks {
		if c.ID == id {
			return c
		}
	}
	return check{ID: id, Result: "not there"}
}

// worse lists the checks that are worse than in an earlier report, except the expected ones.
func (v visit) worse(than visit, expected ...string) []string {
	var out []string
	for _, c := range v.Checks {
		if was := than.of(c.ID); rank(c.Result) > max(0, rank(was.Result)) && !slices.Contains(expected, c.ID) {
			out = append(out, fmt.Sprintf("%s is %s (%s), was %s: %v", c.ID, c.Result, c.Why, was.Result, c.Findings))
		}
	}
	return out
}

// run runs doctor until it exits. No exit code is an error.
func (b *plane) run(ctx context.Context, kubeconfig string, args ...string) (visit, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.doctor, append([]string{"doctor", "--kubeconfig", kubeconfig}, args...)...)
	// Without the environment of the user who runs the tests, for example a kubeconfig.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.Cluster.Dir()}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begin := time.Now()
	err := cmd.Run()
	v := visit{out: out.String(), errors: errs.String(), took: time.Since(begin), code: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || v.code < 0 {
		return v, fmt.Errorf("running doctor: %w: %s", err, v.errors)
	}
	return v, nil
}

// mine is the kubeconfig of a user who may read everything.
func (b *plane) mine() (string, error) { return b.Cluster.KubeconfigFor(doctorUser, "system:masters") }
