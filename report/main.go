// Command gpuscale-report reports how every GPU-hour was used, which demand is pending, and what to change.
// It only reads. Reports need only Prometheus. doctor also reads Kubernetes, with the caller's permissions.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/command"
)

func main() {
	os.Exit(execute())
}

func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name := calledAs(os.Args[0])
	err := newCommand(name, os.Stdout, os.Stderr).ExecuteContext(ctx)
	code := exitCode(err)
	if err != nil && !errors.Is(err, errWritten) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	return code
}

func newCommand(name string, out, errs io.Writer) *cobra.Command {
	var root *cobra.Command
	if name == asPlugin {
		root = newPlugin(out, errs)
	} else {
		root = newRunCommand(name, out, errs)
		root.AddCommand(newTopCommand(out, errs), newDoctorCommand(out))
	}
	root.Version = buildinfo.Version()
	command.Setup(root, name)
	root.SetOut(out)
	root.SetErr(errs)
	return root
}

const longHelp = `Report where every GPU-hour went, which demand was not served, and what to
change. It reads the series of gpuscale-exporter and gpuscale-autoscaler from
Prometheus (or Thanos, Mimir, VictoriaMetrics, Amazon's service):

  gpuscale-report --prometheus-url http://localhost:9090 --since 30d > report.html
  gpuscale-report --prometheus-url URL --since 7d -o json
  gpuscale-report top --prometheus-url URL
  gpuscale-report doctor --prometheus-url URL

Without the autoscaler's series the report has no demand, quotas and pools, and
counts fragmented and stranded GPUs as free. The report says so.

Exit codes:
  0  the report is written
  1  it failed: a query, a file, or Prometheus has no series of a GPU
  2  the command line is wrong
  3  the report is written but incomplete: less than 95 % of the window has
     a record, the data quality is poor, or a query was not answered in full.
     A script should not rely on it
`

// Exit codes. They are in --help, and scripts rely on them.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitIncomplete = 3
	exitFaulty     = 4 // doctor only
)

// coded is an error with its own exit code. Other errors exit with exitFailed.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// incomplete marks a report that was written but has gaps.
func incomplete(err error) error { return coded{err, exitIncomplete} }

// errWritten stands for the failure of another program, which has printed its own error.
var errWritten = errors.New("another program failed")

func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if c, ok := errors.AsType[coded](err); ok {
		return c.code
	}
	if command.IsUsage(err) {
		return exitUsage
	}
	return exitFailed
}
