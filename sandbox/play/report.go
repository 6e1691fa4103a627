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

// Report has the files that gpuscale-report wrote about a story.
type Report struct {
	HTML, JSON string // files
	Note       string // the program's remark, if any
}

// reportTimeout of one form of the report.
const reportTimeout = time.Minute

// reportHoles is the exit code for a report that was written but has gaps.
const reportHoles = 3

// The report rounds its window down to whole steps, and has at least four steps.
const (
	reportStep  = 15 * time.Second
	reportLeast = time.Minute
)

// reporting runs gpuscale-report.
type reporting struct {
	program    string // gpuscale-report
	prometheus string
	dir        string // where it goes
}

// write writes the report for a time range in two forms of the same data: HTML for people, JSON for programs.
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

// form writes one form as a user would, and returns the program's remark.
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

// stopDelay is how long a stopped program may keep its output open.
const stopDelay = time.Second

// reportLength returns the report's length. The window begins with the step in which the story began, since
// much happens in its first seconds.
func reportLength(from, until time.Time) time.Duration {
	return max(reportLeast, until.Truncate(reportStep).Sub(from.Truncate(reportStep)))
}

// text is the line about the report below the summary.
func (r Report) text(err error) string {
	if err != nil {
		return fmt.Sprintf("report    none: %v", err)
	}
	return strings.TrimSpace("report    " + r.HTML + "\n          " + r.Note)
}
