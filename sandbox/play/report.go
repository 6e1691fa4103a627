package play

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Report is what the capacity report's program wrote about a story.
type Report struct {
	HTML, JSON string // files
	Note       string // the program's remark about them; empty: none
}

// reportTimeout of one form of the report.
const reportTimeout = time.Minute

// reportHoles is the program's exit code for a report that is written and partial.
const reportHoles = 3

// The report truncates its window to whole steps, at least four of them.
const (
	reportStep  = 15 * time.Second
	reportLeast = time.Minute
)

// reporting runs the report's program.
type reporting struct {
	program    string // gpuscale-report
	prometheus string
	dir        string // where it goes
}

// write the report on the time between, in two forms of the same data: one to
// look at, one for programs.
func (r reporting) write(ctx context.Context, from, until time.Time) (Report, error) {
	out := Report{HTML: filepath.Join(r.dir, "report.html"), JSON: filepath.Join(r.dir, "report.json")}
	var err error
	if out.Note, err = r.form(ctx, "html", out.HTML, from, until); err != nil {
		return Report{}, err
	}
	if _, err = r.form(ctx, "json", out.JSON, from, until); err != nil {
		return Report{}, err
	}
	return out, nil
}

// form writes one form, as a user would, and returns the program's remark.
func (r reporting) form(ctx context.Context, form, file string, from, until time.Time) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reportTimeout, fmt.Errorf("not written after %s", reportTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, r.program, "--prometheus-url", r.prometheus, "--since", reportLength(from, until).String(),
		"--until", until.UTC().Format(time.RFC3339), "--currency", "$", "--output", form, "--out", file, "--quiet")
	cmd.WaitDelay = stopDelay
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	remark := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "gpuscale-report: ")
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() == reportHoles:
		return remark, nil
	case remark != "":
		return "", errors.New(remark)
	}
	return "", fmt.Errorf("starting %s: %w", filepath.Base(r.program), err)
}

// stopDelay is how long a program that was stopped may keep its output open.
const stopDelay = time.Second

// reportLength is the time to report on, such that the window begins with the step
// in which the play has begun: much happens in its first seconds.
func reportLength(from, until time.Time) time.Duration {
	return max(reportLeast, until.Truncate(reportStep).Sub(from.Truncate(reportStep)))
}

// text is the report's line under the summary.
func (r Report) text(err error) string {
	if err != nil {
		return fmt.Sprintf("report    none: %v", err)
	}
	return strings.TrimSpace("report    " + r.HTML + "\n          " + r.Note)
}
