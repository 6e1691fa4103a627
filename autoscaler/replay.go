package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/plan/replay"
)

// replayFlags are the flags of newReplayCommand.
type replayFlags struct {
	nodes, pods, output string
	policies            []string
	inflation           float64
	seeds, firstSeed    int
	mig                 bool
}

// newReplayCommand measures placement policies on a recorded list of pods. It
// needs no cluster.
func newReplayCommand(out, errs io.Writer) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay --nodes FILE --pods FILE",
		Short: "Measure placement policies on a recorded list of pods",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return runReplay(out, errs, f) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.nodes, "nodes", "", "CSV of nodes: sn, cpu_milli, memory_mib, gpu, model")
	fs.StringVar(&f.pods, "pods", "", "CSV of pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec")
	fs.StringSliceVar(&f.policies, "policy", nil, "ours, fgd, bestfit, random or firstfit; several allowed (default: the four of the published table, ours included)")
	fs.Float64Var(&f.inflation, "inflation", 1.3, "demand that arrives, in multiples of the capacity, 1 to 10")
	fs.IntVar(&f.seeds, "seeds", 10, "number of arrival orders, 1 to 1000")
	fs.IntVar(&f.firstSeed, "first-seed", 42, "seed of the first order")
	fs.BoolVar(&f.mig, "mig", false, "MIG variant: every GPU can be repartitioned, fractions become instances (default policies: ours, bestfit, firstfit)")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json")
	_ = cmd.MarkFlagRequired("nodes") // it fails for unknown flags only
	_ = cmd.MarkFlagRequired("pods")
	return cmd
}

func runReplay(out, errs io.Writer, f replayFlags) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("--output %q: want text or json", f.output)
	}
	if len(f.policies) == 0 {
		f.policies = replay.Policies(f.mig)
	}
	w, err := readWorld(f)
	if err != nil {
		return err
	}
	done := 0
	table, err := replay.Replay(w, replay.Options{
		Policies: f.policies, Inflation: f.inflation, FirstSeed: f.firstSeed, Seeds: f.seeds,
		Workers: runtime.GOMAXPROCS(0), Now: time.Now,
		Done: func(r replay.Run) {
			done++
			fmt.Fprintf(errs, "%d of %d: %s, seed %d: %.2f %% in %.1f s\n", done, len(f.policies)*f.seeds, r.Policy, r.Seed, r.AtEnd, r.Seconds)
		},
	})
	if err != nil {
		return err
	}
	if f.output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(table)
	}
	_, err = fmt.Fprint(out, table)
	return err
}

func readWorld(f replayFlags) (*replay.World, error) {
	nodes, err := readList(f.nodes, replay.ReadNodes)
	if err != nil {
		return nil, err
	}
	pods, err := readList(f.pods, replay.ReadPods)
	if err != nil {
		return nil, err
	}
	w, err := replay.NewWorld(nodes, pods, f.mig)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", f.nodes, f.pods, err)
	}
	return w, nil
}

func readList[T any](name string, read func(string, io.Reader) ([]T, error)) ([]T, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	plain, err := unpacked(file)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return read(name, plain)
}
