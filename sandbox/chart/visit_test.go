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

// Exit codes that docs/doctor.md promises.
const (
	exitNothing  = 0 // nothing is wrong
	exitWarnings = 3 // warnings, or what could not be looked at
	exitFaults   = 4
)

// documentSchema of the document that is asked for here.
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

// visit is one run of doctor.
type visit struct {
	report
	code        int
	out, errors string
	took        time.Duration
}

// runTimeout of one run; far more than it takes.
const runTimeout = time.Minute

// ask runs doctor as whom the kubeconfig says, for JSON.
func (b *plane) ask(ctx context.Context, kubeconfig string, args ...string) (visit, error) {
	v, err := b.run(ctx, kubeconfig, slices.Concat(b.report(), []string{"-o", "json"}, args)...)
	if err != nil {
		return v, err
	}
	return v, v.read()
}

// read takes the document and holds it against itself.
func (v *visit) read() error {
	d := json.NewDecoder(strings.NewReader(v.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&v.report); err != nil {
		return fmt.Errorf("exit %d: reading the document: %w: %s%s", v.code, err, v.out, v.errors)
	}
	return v.check()
}

// check is what every document keeps to, whatever it is about: each finding is whole, and counts and
// exit code are those of the findings.
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

// ranks of results, from best to worst. What was not looked at is no worse than what
// was found in order, and what cannot be known is.
var ranks = []string{"ok", "skipped", "unknown", "warning", "fault"}

func rank(result string) int {
	if result == "skipped" {
		result = "ok"
	}
	return slices.Index(ranks, result)
}

// of is a check by its id.
func (v visit) of(id string) check {
	for _, c := range v.Checks {
		if c.ID == id {
			return c
		}
	}
	return check{ID: id, Result: "not there"}
}

// worse lists the checks that are worse than they were, but for those that are
// expected to be.
func (v visit) worse(than visit, expected ...string) []string {
	var out []string
	for _, c := range v.Checks {
		if was := than.of(c.ID); rank(c.Result) > max(0, rank(was.Result)) && !slices.Contains(expected, c.ID) {
			out = append(out, fmt.Sprintf("%s is %s (%s), was %s: %v", c.ID, c.Result, c.Why, was.Result, c.Findings))
		}
	}
	return out
}

// run runs doctor to its end. A visit that ended with whatever code is no error.
func (b *plane) run(ctx context.Context, kubeconfig string, args ...string) (visit, error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.doctor, append([]string{"doctor", "--kubeconfig", kubeconfig}, args...)...)
	// Without the environment of the user who runs the tests, such as a kubeconfig.
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

// mine is the kubeconfig of who may see everything.
func (b *plane) mine() (string, error) { return b.Cluster.KubeconfigFor(doctorUser, "system:masters") }
