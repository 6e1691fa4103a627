package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

// checkTimeout is how long a source may take to give its first values.
const checkTimeout = 15 * time.Second

// newCheck returns the command that tries everything once and serves nothing.
func newCheck(env func(string) (string, bool)) *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:           "check",
		Short:         "Try the configuration, the GPUs and the kubelet once, and say what was found",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := complete(cmd.Flags(), env, &c); err != nil {
				return err
			}
			return check(cmd.Context(), &c, cmd.OutOrStdout())
		},
	}
	addFlags(cmd.Flags(), &c)
	return cmd
}

// check prints a line for each part and returns an error where one failed.
func check(ctx context.Context, c *config, out io.Writer) error {
	failed := false
	say := func(part, found string, err error) {
		if err != nil {
			failed = true
			_, _ = fmt.Fprintf(out, "%-9s FAILED  %v\n", part, err)
			return
		}
		_, _ = fmt.Fprintf(out, "%-9s ok      %s\n", part, found)
	}
	fields, err := loadCounters(c.countersFile)
	say("counters", fmt.Sprintf("%d fields", len(fields)), err)
	reading, err := firstReading(ctx, c)
	say("source", describe(reading), err)
	if c.kubernetes {
		found, err := askKubelet(ctx, c, reading)
		say("kubelet", found, err)
	}
	if failed {
		return errors.New("check failed")
	}
	return nil
}

// firstReading reads until the source gives a value: the first pass over a
// driver often comes before its first sample.
func firstReading(ctx context.Context, c *config) (*collect.Reading, error) {
	source, err := openSource(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer source.Close()
	if err := source.Watch(collect.Fields(), c.interval()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	for {
		reading, err := source.Read()
		if err == nil && values(reading) > 0 {
			return reading, nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("no values within %s: %s", checkTimeout, describe(reading))
			}
			return nil, err
		case <-time.After(c.interval()):
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
	cards := 0
	for i := range r.Entities {
		if r.Entities[i].Kind == collect.GPU {
			cards++
		}
	}
	return fmt.Sprintf("%d cards, %d MIG instances, %d values", cards, len(r.Entities)-cards, values(r))
}

// askKubelet asks once and resolves the answer where there is a reading.
func askKubelet(ctx context.Context, c *config, r *collect.Reading) (string, error) {
	watcher, err := pods.New(pods.Options{Socket: c.kubeletSocket, Resources: c.resources})
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go watcher.Run(ctx)
	<-watcher.Answered()
	if err := watcher.Err(); err != nil {
		return "", err
	}
	claims := watcher.Snapshot(time.Now()).Claims
	found := fmt.Sprintf("%d devices held", len(claims))
	if r == nil {
		return found, nil
	}
	if _, unresolved := pods.Resolve(r.Entities, claims); len(unresolved) > 0 {
		return "", fmt.Errorf("containers hold devices that the source does not show: %q", unresolved)
	}
	return found, nil
}
