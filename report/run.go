package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/prices"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/render"
	"github.com/gpuscale/gpuscale/report/render/csv"
	"github.com/gpuscale/gpuscale/report/render/html"
	"github.com/gpuscale/gpuscale/report/render/jsonout"
	"github.com/gpuscale/gpuscale/report/render/md"
)

// options of a report.
type options struct {
	source
	since, until     string
	form, out, table string
	prices, currency string
	previous         string
	concurrency      int
	quiet, accept    bool
	stdout, stderr   io.Writer
	now              func() time.Time
}

// forms of a report.
var forms = []string{"html", "md", "csv", "json"}

func newRunCommand(name string, out, errs io.Writer) *cobra.Command {
	o := options{stdout: out, stderr: errs, now: time.Now}
	cmd := &cobra.Command{
		Use: name, Short: "Write the capacity report", Long: "Write the capacity report.\n\n" + exitHelp, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	fs := cmd.Flags()
	o.source.add(fs)
	fs.StringVar(&o.since, "since", "30d", "length of the window: 30d, 2w, 12h, 10m")
	fs.StringVar(&o.until, "until", "", "end of the window, RFC 3339; now if empty")
	fs.StringVarP(&o.form, "output", "o", "html", "html, md, csv or json")
	fs.StringVar(&o.out, "out", "", "file to write; of csv a folder; standard output if empty or -")
	fs.StringVar(&o.table, "table", "", "of csv without --out: the table to print")
	fs.StringVar(&o.prices, "prices", "", "YAML file with the price of a GPU by model: see docs/prices-example.yaml")
	fs.StringVar(&o.currency, "currency", "", "currency of the GPUNodePools' prices, which do not state it")
	fs.StringVar(&o.previous, "previous", "", "report before, as -o json wrote it, to compare with")
	fs.IntVar(&o.concurrency, "concurrency", 4, "queries under way at once")
	fs.BoolVar(&o.accept, "accept-incomplete", false, "exit with 0 instead of 3, with the reason on standard error, also before the first step has ended: for a CronJob, whose Job would fail and be retried")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "no progress on the terminal")
	complete(cmd, "output", "html\tone page, no network", "md\tMarkdown", "csv\tone table each", "json\tfor programs, schema 1")
	return cmd
}

func (o options) run(ctx context.Context) error {
	if o.out == "-" {
		o.out = ""
	}
	w, err := o.check()
	if err != nil {
		return usage{err}
	}
	in := model.Input{Currency: o.currency, Version: buildinfo.Version(), Generated: o.now()}
	if err := o.read(&in); err != nil {
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	bar := newProgress(o.stderr, o.quiet)
	in.Answers, err = query.Run(ctx, client, w, query.Options{Match: o.match, Concurrency: o.concurrency, Progress: bar.show})
	bar.end()
	if o.accept && errors.Is(err, query.ErrYoung) {
		_, err = fmt.Fprintln(o.stderr, "gpuscale-report: no report is written:", err)
		return err
	}
	if err != nil {
		return advise(err)
	}
	r := model.Make(in)
	if err := r.Check(); err != nil {
		return fmt.Errorf("the report is inconsistent, which is a bug: please report it: %w", err)
	}
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
	return incomplete{errors.New(shortcomings(r.Answer.Quality))}
}

// shortcomings is why a script should not rely on the report.
func shortcomings(q model.Quality) string {
	text := fmt.Sprintf("the report is written, but %s of the window have a record and the data's quality is %s", render.Share(q.Coverage), q.Grade)
	if n := len(q.Unanswered); n > 0 {
		text += fmt.Sprintf(", and %d of its queries were not answered in full (%s)", n, strings.Join(q.Unanswered, ", "))
	}
	return text + ": see its section 0"
}

// check reads the flags that need no file.
func (o options) check() (query.Window, error) {
	if !slices.Contains(forms, o.form) {
		return query.Window{}, fmt.Errorf("--output %q: want one of %s", o.form, strings.Join(forms, ", "))
	}
	if o.form == "csv" && o.out == "" && o.table == "" {
		return query.Window{}, errors.New("--output csv: give --out, a folder for all tables, or --table, the one to print (such as use)")
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

// read reads the files before any query, so that errors in them show at once.
func (o options) read(in *model.Input) error {
	if o.prices != "" {
		list, err := prices.Load(o.prices)
		if err != nil {
			return err
		}
		in.Prices = &list
	}
	if err := o.writable(); err != nil {
		return err
	}
	if o.previous == "" {
		return nil
	}
	raw, err := os.ReadFile(o.previous)
	if err != nil {
		return fmt.Errorf("reading --previous: %w", err)
	}
	r, err := jsonout.Read(o.previous, raw)
	if err != nil {
		return err
	}
	in.Previous = &r
	return nil
}

func (o options) write(r model.Report) error {
	if o.form == "csv" && o.out != "" {
		return csv.WriteAll(o.out, r)
	}
	var b bytes.Buffer
	var err error
	switch o.form {
	case "html":
		err = html.Write(&b, r)
	case "md":
		err = md.Write(&b, r)
	case "json":
		err = jsonout.Write(&b, r)
	case "csv":
		if err = csv.Write(&b, r, o.table); errors.Is(err, csv.ErrNoTable) {
			return usage{fmt.Errorf("--table: %w", err)}
		}
	}
	if err != nil {
		return err
	}
	if o.out != "" {
		return replace(o.out, b.Bytes())
	}
	if _, err := o.stdout.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
