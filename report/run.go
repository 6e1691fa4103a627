package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/prices"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/render"
)

// options of a report.
type options struct {
	source
	since, until     string
	form, out        string
	prices, currency string
	concurrency      int
	quiet, accept    bool
	stdout, stderr   io.Writer
	now              func() time.Time
}

// forms of a report.
var forms = []string{"html", "json"}

func newRunCommand(name string, out, errs io.Writer) *cobra.Command {
	o := options{stdout: out, stderr: errs, now: time.Now}
	cmd := &cobra.Command{
		Use: name, Short: "Write the capacity report", Long: longHelp, Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	o.source.add(fs)
	o.addTrusted(fs)
	fs.StringVar(&o.since, "since", "30d", "length of the window, such as 30d, 2w, 12h or 10m")
	fs.StringVar(&o.until, "until", "", "end of the window as RFC 3339, such as 2026-03-01T00:00:00Z; now if empty")
	fs.StringVarP(&o.form, "output", "o", "html", "html or json")
	fs.StringVar(&o.out, "out", "", "file to write the report to; standard output if empty or -")
	fs.StringVar(&o.prices, "prices", "", "YAML file with the prices of GPU models: docs/prices-example.yaml is an example")
	fs.StringVar(&o.currency, "currency", "", "currency of the prices in GPUNodePools, which have none")
	fs.IntVar(&o.concurrency, "concurrency", 4, "number of queries to send at the same time")
	fs.BoolVar(&o.accept, "accept-incomplete", false, "exit with 0 and write the reason to standard error, if the report is incomplete or there is not enough data yet. For a CronJob, whose Job would fail and run again")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress on the terminal")
	complete(cmd, "output", "html\tone page, no network", "json\tfor programs, schema 1")
	return cmd
}

func (o options) run(ctx context.Context) error {
	if o.form == "html" && o.out == "" && terminal(o.stdout) {
		return command.Usage(errors.New("the page would fill this terminal: write it to a file with --out report.html, or here with --out -"))
	}
	if o.out == "-" {
		o.out = ""
	}
	w, err := o.check()
	if err != nil {
		return command.Usage(err)
	}
	in := model.Input{Currency: o.currency, Version: buildinfo.Version(), Generated: o.now()}
	if err := o.read(&in); err != nil {
		return err
	}
	client, err := o.client(ctx)
	if err != nil {
		return err
	}
	if o.until == "" { // by the server's clock, since this machine's may be wrong
		v, err := client.Query(ctx, "vector(time())", time.Time{})
		if err != nil {
			return advise(fmt.Errorf("asking Prometheus: %w", err))
		}
		if len(v) == 1 {
			o.until = time.UnixMilli(int64(1000 * v[0].Value)).UTC().Format(time.RFC3339)
			if w, err = o.check(); err != nil {
				return err
			}
		}
	}
	bar := newProgress(o.stderr, o.quiet)
	in.Answers, err = query.Run(ctx, client, w, query.Options{Match: o.match, Trusted: o.trusted, Concurrency: o.concurrency, Progress: bar.show})
	bar.end()
	if o.accept && errors.Is(err, query.ErrYoung) {
		_, err = fmt.Fprintln(o.stderr, "gpuscale-report: no report is written:", err)
		return err
	}
	if err != nil {
		return advise(err)
	}
	for i, p := range in.Answers.Problems {
		in.Answers.Problems[i].Err = strings.ReplaceAll(advise(errors.New(p.Err)).Error(), "\n", "; ")
	}
	r := model.Make(in)
	if err := o.write(r); err != nil {
		return err
	}
	switch {
	case !r.Incomplete():
		return nil
	case o.accept:
		if _, err := fmt.Fprintln(o.stderr, "gpuscale-report:", shortcomings(r.Answer.Quality)); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
		return nil
	}
	return incomplete(errors.New(shortcomings(r.Answer.Quality)))
}

// shortcomings says why a script should not rely on the report; empty if it can.
func shortcomings(q model.Quality) string {
	why := fmt.Sprintf("the report is written but incomplete: %s of the window has a record, and the data quality is %s", model.Share(q.Coverage), q.Grade)
	if n := len(q.Unanswered); n > 0 {
		why += fmt.Sprintf("; %d of its queries were not answered in full (%s)", n, strings.Join(q.Unanswered, ", "))
	}
	return why + "; section 0 has the details"
}

// check validates the flags that require no file.
func (o options) check() (query.Window, error) {
	if !slices.Contains(forms, o.form) {
		return query.Window{}, fmt.Errorf("--output %q: want one of %s", o.form, strings.Join(forms, ", "))
	}
	if o.concurrency < 1 {
		return query.Window{}, fmt.Errorf("--concurrency %d: want at least 1", o.concurrency)
	}
	since, err := length(o.since)
	if err != nil {
		return query.Window{}, fmt.Errorf("--since %w", err)
	}
	until := o.now()
	if o.until != "" {
		if until, err = time.Parse(time.RFC3339, o.until); err != nil {
			return query.Window{}, fmt.Errorf("--until %q: want a time such as 2026-03-01T00:00:00Z", o.until)
		}
	}
	w, err := query.NewWindow(until, since)
	if err != nil {
		return query.Window{}, fmt.Errorf("--since %w", err)
	}
	return w, nil
}

// read reads the files before any query, so that errors in them appear at once.
func (o options) read(in *model.Input) error {
	if o.prices != "" {
		list, err := prices.Load(o.prices)
		if err != nil {
			return err
		}
		in.Prices = &list
	}
	return o.writable()
}

func (o options) write(r model.Report) error {
	write := func(w io.Writer) error { return render.HTML(w, r) }
	if o.form == "json" {
		write = func(w io.Writer) error { return text.JSON(w, r) }
	}
	var b bytes.Buffer
	err := write(&b)
	if err != nil {
		return err
	}
	if o.out != "" {
		err = replace(o.out, b.Bytes())
	} else {
		_, err = o.stdout.Write(b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
