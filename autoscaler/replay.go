package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscale/gpuscale/plan/replay"
)

// newReplayCommand plays a recorded list of pods through the planner. It needs no
// cluster.
func newReplayCommand(out, errs io.Writer) *cobra.Command {
	var o replay.Options
	var pods, output, placement string
	var from, days float64
	var all bool
	cmd := &cobra.Command{
		Use:   "replay --pods FILE",
		Short: "Play a recorded list of pods through the planner: GPU-hours and waiting, against fixed MIG layouts",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if output != "text" && output != "json" {
				return usage{fmt.Errorf("--output %q: want text or json", output)}
			}
			if placement != "least" && placement != "most" {
				return usage{fmt.Errorf("--placement %q: want least or most", placement)}
			}
			o.MostAllocated = placement == "most"
			o.From, o.Length = time.Duration(from*24*float64(time.Hour)), time.Duration(days*24*float64(time.Hour))
			o.Processor = processorTime
			o.Progress = func(policy string, day int) { fmt.Fprintf(errs, "%s: day %d\n", policy, day) }
			return runReplay(out, pods, output, all, o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&pods, "pods", "", "CSV of pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli, creation_time, deletion_time and, where it is there, scheduled_time, in seconds; gzip is read too")
	fs.Float64Var(&from, "from", 0, "day of the trace to begin at")
	fs.Float64Var(&days, "days", 0, "days to play, 0 for all; pods that run longer end with the last day")
	fs.IntVar(&o.Copies, "copies", 1, "copies of each pod, the further ones up to an hour later: a denser trace")
	fs.Uint64Var(&o.Seed, "seed", 1, "seed of those times")
	fs.StringVar(&o.Model, "model", "A100-80GB", "product of every GPU; it must have MIG")
	fs.IntVar(&o.GPUs, "gpus", 8, "GPUs of a node")
	fs.IntVar(&o.CPU, "cpu-milli", 128000, "CPU of a node, in thousandths of a core")
	fs.IntVar(&o.Memory, "memory-mib", 1<<20, "memory of a node, in MiB")
	fs.IntVar(&o.MaxNodes, "max-nodes", 1000, "nodes of each pool at most")
	fs.Float64Var(&o.Price, "price", 2, "price of a GPU for an hour: an assumption, set your own")
	fs.DurationVar(&o.Boot, "boot", 3*time.Minute, "from the request of a node until pods run on it (a GPUNodePool's default)")
	fs.DurationVar(&o.Repartition, "repartition", 30*time.Second, "length of a repartition (the autoscaler's default for mig-manager)")
	fs.DurationVar(&o.Interval, "interval", 10*time.Second, "least time between two plans, in the trace's time")
	fs.StringVar(&placement, "placement", "least", "kube-scheduler's score: least (LeastAllocated, its default) or most (MostAllocated), over CPU and memory")
	fs.BoolVar(&o.Agent, "agent", false, "repartition around busy instances, as our agent does; mig-manager needs the GPU empty")
	fs.BoolVar(&all, "all", false, "print every static variant, not only the best")
	fs.StringVarP(&output, "output", "o", "text", "text or json")
	_ = cmd.MarkFlagRequired("pods") // it fails for unknown flags only
	return cmd
}

func runReplay(out io.Writer, name, output string, all bool, o replay.Options) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	plain, err := unpacked(file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	pods, err := replay.ReadPods(name, plain)
	if err != nil {
		return err
	}
	trace, err := replay.NewTrace(pods, o)
	if err != nil {
		return err
	}
	result, err := trace.Play(all)
	if err != nil {
		return err
	}
	if output == "json" {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(result)
	}
	_, err = fmt.Fprint(out, result)
	return err
}

// processorTime is the processor time that the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
