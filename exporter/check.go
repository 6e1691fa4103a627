package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/dcgm"
	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/nvml"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/internal/command"
)

// checkTimeout is how long a source may take to give its first values.
const checkTimeout = 15 * time.Second

const checkHelp = `Try the configuration, the GPUs and the kubelet once, and report what would be
served, what is missing and why. Nothing is served. Takes the exporter's flags
and environment.

Exit status: 0 nothing is missing; 1 a part failed or the flags are wrong;
2 the exporter would run, and something that was requested is missing.`

// newCheck returns the command that tries every part once and serves nothing.
func newCheck(env func(string) (string, bool)) *cobra.Command {
	var c config
	output := "text"
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Try configuration, GPUs and kubelet once, and report the result",
		Long:  checkHelp,
		Args:  command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output: %q is not one of text, json", output)
			}
			if err := complete(cmd.Flags(), env, &c); err != nil {
				return err
			}
			log := slog.New(hints{slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn})})
			k := checker{config: &c, log: log}
			k.run(cmd.Context())
			if err := k.print(cmd.OutOrStdout(), output); err != nil {
				return err
			}
			return k.verdict
		},
	}
	addFlags(cmd.Flags(), &c)
	// -o is dcgm-exporter's for --use-old-namespace, so the format has no letter.
	cmd.Flags().StringVar(&output, "output", output, "text or json")
	return cmd
}

// hints drops the records of errors, which the findings have.
type hints struct{ slog.Handler }

func (h hints) Handle(ctx context.Context, r slog.Record) error {
	failed := false
	r.Attrs(func(a slog.Attr) bool { failed = failed || a.Key == "error"; return true })
	if failed {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// checker tries each part in turn; a failed part does not affect the others.
type checker struct {
	config  *config
	log     *slog.Logger
	found   []finding
	verdict error // nil: everything is there
}

func (k *checker) run(ctx context.Context) {
	for _, w := range k.config.warnings {
		k.missing("flags", w)
	}
	file, err := loadCounters(ctx, k.config)
	fields := file.Fields
	k.add("counters", fmt.Sprintf("%d fields", len(fields)), err)
	for _, w := range file.Warnings {
		k.missing("counters", w.Error())
	}
	var reading *collect.Reading
	source, what, err := openSource(k.config, k.log)
	if err == nil {
		reading, err = k.firstReading(ctx, source, fields)
	}
	k.add("source", what+": "+describe(reading), err)
	if reading != nil {
		k.profiling(reading, what)
		k.series(reading, fields)
	}
	var api error
	if k.config.kubernetes {
		api = k.kubelet(ctx, reading)
	}
	if file := k.config.webConfigFile; file != "" {
		err := web.Validate(file)
		if err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
		k.add("web", file+" can be used", err)
	}
	if k.wantsAPI() {
		k.add("api", "a service account or a kubeconfig is there, and no request was refused", cmp.Or(api, k.ownNode(ctx)))
	}
}

// ownNode connects to the API server and reads the own Node where flags write to it.
func (k *checker) ownNode(ctx context.Context) error {
	api, err := pods.Connect()
	if err == nil && (k.config.quiesceAnnotation || k.config.nodeCondition) {
		err = api.Read(ctx, "/api/v1/nodes/"+k.config.node, nil, &struct{}{})
	}
	return err
}

// wantsAPI reports whether flags need the API server.
func (k *checker) wantsAPI() bool {
	c := k.config
	return c.configMap != "" || c.quiesceAnnotation || c.nodeCondition ||
		c.kubernetes && (c.podLabels || c.podUID || c.series.VirtualGPUs || c.enableDRA || c.fractionalGPUs)
}

// profiling reports which GPUs and instances have busy values as means over the
// interval, not as short samples.
func (k *checker) profiling(r *collect.Reading, source string) {
	with, all := 0, 0
	for i := range r.Entities {
		e := &r.Entities[i]
		if e.Kind == collect.GPU && e.MIG {
			continue // its instances have values
		}
		all++
		if _, ok := e.Value(collect.FieldEngineActive); ok {
			with++
		}
	}
	found := fmt.Sprintf("%d of %d GPUs and instances have profiling metrics", with, all)
	if with == all {
		k.add("profiling", found, nil)
		return
	}
	needs := "SYS_ADMIN or root in the process that runs DCGM, a GPU from Volta on, and no other profiler at work"
	if source == sourceNVML {
		needs = "DCGM, or a GPU from Hopper on"
	}
	why := found + ": profiling needs " + needs + "; GPUs show GPU_UTIL instead"
	if slices.ContainsFunc(r.Entities, func(e collect.Entity) bool { return e.Kind == collect.Instance }) {
		why += ", MIG instances have nothing else"
	}
	k.missing("profiling", why)
}

// fields names the counters without any series. They are missing only if the user named
// the counters. The last XID's counter has no series before the first XID.
func (k *checker) fields(r *collect.Reading, fields []counters.Field, page string) {
	var without []string
	for i := range fields {
		f := &fields[i]
		if !f.Computed() && f.Kind != counters.Label && !strings.Contains(page, "\n"+f.Name+"{") && !(f.ID == collect.FieldXID && listening(r)) {
			without = append(without, f.Name)
		}
	}
	if len(without) == 0 {
		k.add("fields", "every counter has a value", nil)
		return
	}
	why := fmt.Sprintf("%d of %d counters have no value here", len(without), len(fields))
	for _, reason := range []string{"not_supported", "blank", "impossible", "error"} {
		if n := r.Dropped[reason]; n > 0 {
			why += fmt.Sprintf(", %d values %s", n, strings.ReplaceAll(reason, "_", " "))
		}
	}
	if k.config.fields == nil && k.config.countersFile == "" && k.config.configMap == "" {
		// The built-in list is for every kind of GPU: none has all of it.
		k.add("fields", why, nil, without...)
		return
	}
	k.missing("fields", why, without...)
}

// listening reports whether XIDs are received of every GPU.
func listening(r *collect.Reading) bool {
	return !slices.ContainsFunc(r.Entities, func(e collect.Entity) bool {
		return e.Kind == collect.GPU && (e.Events == nil || !e.Events.Listening)
	})
}

// series counts what a scrape would get now.
func (k *checker) series(r *collect.Reading, fields []counters.Field) {
	if absent := k.config.series.Devices.Missing(r); len(absent) > 0 {
		k.missing("devices", "these devices of -d are absent; they are shown when they appear", absent...)
	}
	page := collect.NewCompiler(collect.Options{
		Node: k.config.node, Interval: k.config.interval(), Compat: k.config.compatOptions(fields), MaxSeries: k.config.maxSeries,
	}).Compile(r, collect.Attribution{})
	text, count := page.Append(nil, r.Taken, false)
	if k.config.compat != "false" {
		k.fields(r, fields, string(text))
	}
	found := fmt.Sprintf("%d series of GPUs, %d bytes", count.Series, len(text))
	if len(page.LeftOut) > 0 {
		k.missing("series", found+fmt.Sprintf(", which is the limit of --max-series; %d families are left out", len(page.LeftOut)))
		return
	}
	k.add("series", found, nil)
}

// firstReading runs the source, at most every second, until it has given values twice: the first pass
// over a driver often comes before its first sample, and profiling takes an interval longer.
func (k *checker) firstReading(ctx context.Context, source collect.Source, fields []counters.Field) (*collect.Reading, error) {
	n := node.New(node.Options{
		Options: collect.Options{Interval: min(k.config.interval(), time.Second), Compat: k.config.compatOptions(fields)},
		Source:  source, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	ended := make(chan struct{})
	go func() { defer close(ended); n.Run(ctx) }()
	defer func() { cancel(); <-ended }() // the source is closed, or given up
	for first := (*collect.Reading)(nil); ; {
		if r := n.Reading(); r != nil && values(r) > 0 {
			if first = cmp.Or(first, r); r != first {
				return r, nil
			}
		}
		err := n.Ready()
		if errors.Is(err, dcgm.ErrNoDriver) || errors.Is(err, nvml.ErrNoDriver) {
			return nil, err // no retry helps
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no values within %s: %w", checkTimeout, cmp.Or(err, errors.New("one reading has values")))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func values(r *collect.Reading) (n int) {
	for i := range r.Entities {
		n += len(r.Entities[i].Values)
	}
	return n
}

func describe(r *collect.Reading) string {
	if r == nil {
		return ""
	}
	gpus := r.GPUs()
	return fmt.Sprintf("%d GPUs, %d MIG instances, %d values", gpus, len(r.Entities)-gpus, values(r))
}

// kubelet sends one request to the kubelet, and those of the flags to the API server. It
// resolves the answers if there is a reading. It returns why the API server refused.
func (k *checker) kubelet(ctx context.Context, r *collect.Reading) (api error) {
	watcher, err := newWatcher(k.config, nil, pods.Connect, k.log)
	if err != nil {
		k.add("kubelet", "", err)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go watcher.Run(ctx)
	<-watcher.Answered()
	api = watcher.APIErr()
	found, now := "", time.Now()
	if err = watcher.Err(); err == nil {
		found = fmt.Sprintf("%d devices allocated", len(watcher.Snapshot(now).Claims))
	}
	if err == nil && r != nil {
		if _, unresolved := watcher.Attribute(r, now); len(unresolved) > 0 {
			err = fmt.Errorf("devices that are allocated to pods are not in the reading: %q", unresolved)
		}
	}
	k.add("kubelet", found, err)
	return api
}

// Statuses of a finding.
const (
	statusOK      = "ok"
	statusMissing = "missing" // the exporter runs without it
	statusFailed  = "failed"
)

// finding is what check found of one part.
type finding struct {
	Part   string `json:"part"`
	Status string `json:"status"`
	Found  string `json:"found,omitempty"`
	Why    string `json:"why,omitempty"`
	// Names of what has no value.
	Names []string `json:"names,omitempty"`
}

// add records the result of a part, or why it failed.
func (k *checker) add(part, found string, err error, names ...string) {
	f := finding{Part: part, Status: statusOK, Found: found, Names: names}
	if err != nil {
		f = finding{Part: part, Status: statusFailed, Why: err.Error()}
		k.verdict = errCheckFailed
	}
	k.found = append(k.found, f)
}

func (k *checker) missing(part, why string, names ...string) {
	k.verdict = cmp.Or(k.verdict, errIncomplete)
	k.found = append(k.found, finding{Part: part, Status: statusMissing, Why: why, Names: names})
}

// print writes a line for each part, or one JSON object.
func (k *checker) print(w io.Writer, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"ok": k.verdict == nil, "parts": k.found})
	}
	var text strings.Builder
	for _, f := range k.found {
		status := strings.Replace(f.Status, statusFailed, "FAILED", 1)
		fmt.Fprintf(&text, "%-9s %-7s %s", f.Part, status, f.Found+f.Why)
		if len(f.Names) > 0 {
			text.WriteString(": " + strings.Join(f.Names, " "))
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// Verdicts.
var (
	errCheckFailed = errors.New("check failed")
	errIncomplete  = errors.New("something that was requested is missing")
)

// exitStatus is the program's exit status for an error.
func exitStatus(err error) int {
	if errors.Is(err, errIncomplete) {
		return 2
	}
	return 1
}
