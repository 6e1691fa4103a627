package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/adapter/explain"
	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/internal/command"
)

type simulateFlags struct {
	lookFlags
	past     explain.Simulation
	since    model.Duration
	replicas int32
}

func simulateCommand() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate hpa NAMESPACE/NAME",
		Short: "Replay an HPA over a past range, as it is or with changes",
		Long: `Replay an HPA over a past range, as it is or with changes (--set, --hpa).

Each step evaluates the rules as of that time, and applies the HPA's own
arithmetic, with its windows and policies, to simulated replicas.
` + reachHelp,
		Args: hpaArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s := &f.past
			s.To = cmp.Or(s.To, time.Now())
			s.From = cmp.Or(s.From, s.To.Add(-time.Duration(f.since)))
			if err := cmp.Or(s.Validate(), f.check()); err != nil {
				return err
			}
			w, _, err := f.look(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			s.Options = f.Options
			s.Progress = func(rule string, done, total int) {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d of %d steps\n", rule, done, total) // losing progress output is no failure
			}
			if cmd.Flags().Changed("replicas") {
				s.Replicas = &f.replicas
			}
			t, err := explain.Simulate(cmd.Context(), w, *s)
			if err != nil {
				return err
			}
			return f.print(cmd, t)
		},
	}
	flags := cmd.Flags()
	f.add(flags, "text, json or csv")
	flags.TimeVar(&f.past.From, "from", time.Time{}, []string{time.RFC3339}, "begin, in RFC 3339; empty means --since before the end")
	flags.TimeVar(&f.past.To, "to", time.Time{}, []string{time.RFC3339}, "end, in RFC 3339; empty means now")
	f.since = model.Duration(6 * time.Hour)
	flags.Var(&f.since, "since", "length of the range, such as 6h or 1d")
	flags.DurationVar(&f.past.Step, "step", hpa.DefaultPeriod, "the controller manager's --horizontal-pod-autoscaler-sync-period")
	flags.StringVar((*string)(&f.past.Load), "load", string(explain.Recorded), "recorded: values as recorded; total: averages are divided among the simulated replicas")
	flags.Int32Var(&f.replicas, "replicas", 0, "replicas at the beginning; unset means the recorded number")
	return cmd
}

func (f *simulateFlags) check() error {
	switch load := f.past.Load; {
	case f.output != "text" && f.output != "json" && f.output != "csv":
		return command.Usage(fmt.Errorf("--output %q is none of text, json, csv", f.output))
	case load != explain.Recorded && load != explain.Total:
		return command.Usage(fmt.Errorf("--load %q is neither recorded nor total", load))
	case f.replicas < 0:
		return command.Usage(fmt.Errorf("--replicas %d is negative", f.replicas))
	}
	return nil
}

func (f *simulateFlags) print(cmd *cobra.Command, t explain.Timeline) error {
	switch f.output {
	case "csv":
		return t.CSV(cmd.OutOrStdout())
	case "json":
		return explain.WriteJSON(cmd.OutOrStdout(), t)
	}
	return t.Text(cmd.OutOrStdout())
}
