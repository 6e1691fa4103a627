package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/plan/replay"
)

// replaying is a replay's flags.
type replaying struct {
	replay.Options
	serving                                replay.Serving
	pods, requests, svg, output, placement string
	all                                    bool
}

// newReplayCommand plays a recorded list of pods through the planner. It needs no
// cluster.
func newReplayCommand(out, errs io.Writer) *cobra.Command {
	var o replaying
	cmd := &cobra.Command{
		Use:   "replay --pods FILE",
		Short: "Compare GPU-hours and pending time of a trace between autoscalers",
		Long: `Play a recorded list of pods through the planner, and through the rules of
cluster-autoscaler and Karpenter: GPU-hours and pending time of each.
docs/internals/replay.md has what is assumed.`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case o.pods == "" && o.requests == "":
				return command.Usage(fmt.Errorf("want --pods, --requests or both"))
			case o.output != "text" && o.output != "json":
				return command.Usage(fmt.Errorf("--output %q: want text or json", o.output))
			case o.placement != "least" && o.placement != "most":
				return command.Usage(fmt.Errorf("--placement %q: want least or most", o.placement))
			}
			o.MostAllocated = o.placement == "most"
			o.Processor = processorTime
			o.Progress = func(policy string, seed uint64, day int) {
				fmt.Fprintf(errs, "%s: seed %d: day %d\n", policy, seed, day)
			}
			return o.run(out)
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *replaying) flags(fs *pflag.FlagSet) {
	fs.StringVar(&o.pods, "pods", "", "pods that arrive and leave: CSV with name, cpu_milli, memory_mib, num_gpu, gpu_milli, creation_time, deletion_time and optionally scheduled_time and gang; times in seconds; or JSON of kubectl get pods -A -o json; gzip is read too")
	fs.Float64Var(&o.From, "from", 0, "day of the trace to begin at, counted from its first pod on")
	fs.Float64Var(&o.Days, "days", 0, "days to play, 0 for all; pods that run longer end with the last day")
	fs.IntVar(&o.Copies, "copies", 1, "copies of each pod, the further ones up to an hour later: a denser trace")
	fs.Uint64Var(&o.Seed, "seed", 1, "seed of the first run")
	fs.IntVar(&o.Seeds, "seeds", 0, "seeds to play; the table has means and deviations; 0 for 10 where chance enters, else 1")
	fs.StringVar(&o.Model, "model", "A100-80GB", "product of every GPU; it must have MIG")
	fs.IntSliceVar(&o.GPUs, "gpus", []int{8}, "GPUs of a node; several sizes, such as 1,2,4,8, are pools each")
	fs.IntVar(&o.CPU, "cpu-milli", 128000, "CPU of the largest node, in thousandths of a core; smaller ones have as much for each GPU")
	fs.IntVar(&o.Memory, "memory-mib", 1<<20, "memory of the largest node, in MiB")
	fs.IntVar(&o.MaxNodes, "max-nodes", 1000, "nodes of each pool at most")
	fs.Float64Var(&o.Price, "price", 2, "price of a GPU for an hour: an assumption, set your own")
	fs.Float64Var(&o.MIGPrice, "mig-price", 0, "the same in pools whose GPUs have MIG instances; 0 for --price")
	fs.DurationVar(&o.Boot, "boot", 3*time.Minute, "from the request of a node until pods run on it (a GPUNodePool's default)")
	fs.DurationVar(&o.Repartition, "repartition", 30*time.Second, "length of a repartition (the autoscaler's default for mig-manager)")
	fs.DurationVar(&o.Interval, "interval", 10*time.Second, "least time between two plans, in the trace's time (cluster-autoscaler's scan interval)")
	fs.DurationVar(&o.IdleAfter, "idle-after", 0, "how long gpuscale keeps an empty node (a GPUNodePool's idleAfter); 0 for its default, --boot or, for three hours after a scale up soon after a removal, 10m")
	fs.StringVar(&o.placement, "placement", "least", "kube-scheduler's score: least (LeastAllocated, its default) or most (MostAllocated), over CPU and memory")
	fs.BoolVar(&o.Agent, "agent", false, "repartition around busy instances, as our agent does; mig-manager needs the GPU empty")
	fs.Float64Var(&o.Gangs, "gangs", 0, "share of the pods with whole GPUs that become gangs: an assumption")
	fs.IntVar(&o.GangSize, "gang-size", 4, "pods of such a gang, each with the requests of the pod that it replaces")
	fs.Float64Var(&o.Evictable, "evictable", 0, "share of the pods that may be evicted and then begin again: traces do not say")
	fs.Float64Var(&o.Interruptions, "interruptions", 0, "spot interruptions of a node in an hour, with 2 minutes' notice as on AWS; providers publish ranges for a month only")
	fs.Float64Var(&o.FailRepartition, "fail-repartition", 0, "share of repartitions that fail: an assumption")
	fs.Float64Var(&o.FailBoot, "fail-boot", 0, "share of requested nodes that never register; they are given up after 15 minutes (cluster-autoscaler's and Karpenter's timeout)")
	fs.StringVar(&o.requests, "requests", "", "requests that an HPA scales replicas for: CSV with TIMESTAMP, ContextTokens and GeneratedTokens, as the Azure LLM inference trace")
	fs.Float64Var(&o.serving.Days, "request-days", 1, "days of requests: the trace is repeated")
	fs.Float64Var(&o.serving.Scale, "request-scale", 50, "factor on the trace's requests at 14:00: an assumption")
	fs.Float64Var(&o.serving.Night, "request-night", 0.2, "share of those requests at 2:00, with a cosine between: an assumption")
	fs.Float64Var(&o.serving.Prefill, "prefill", 5000, "prompt tokens a second of a request: an assumption")
	fs.Float64Var(&o.serving.Decode, "decode", 30, "generated tokens a second of a request: an assumption")
	fs.Float64Var(&o.serving.PerReplica, "per-replica", 32, "requests in flight for each replica, the HPA's target: an assumption")
	fs.IntVar(&o.serving.Milli, "replica-gpu-milli", 1000, "thousandths of a GPU of a replica")
	fs.IntVar(&o.serving.CPU, "replica-cpu-milli", 8000, "CPU of a replica, in thousandths of a core")
	fs.IntVar(&o.serving.Memory, "replica-memory-mib", 65536, "memory of a replica, in MiB")
	fs.BoolVar(&o.all, "all", false, "print every fixed layout, not only the best")
	fs.StringVar(&o.svg, "svg", "", "SVG file for a drawing of supply and demand over time, for each policy")
	fs.StringVarP(&o.output, "output", "o", "text", "text or json")
}

func (o *replaying) run(out io.Writer) error {
	var pods []replay.Pod
	if o.pods != "" {
		if err := withFile(os.Stdin, o.pods, func(r io.Reader) (err error) {
			pods, err = readPods(o.pods, r)
			return err
		}); err != nil {
			return err
		}
	}
	if o.requests != "" {
		if err := withFile(os.Stdin, o.requests, func(r io.Reader) error {
			requests, err := replay.ReadRequests(o.requests, r)
			if err != nil {
				return err
			}
			replicas, err := replay.Replicas(requests, o.serving)
			pods = append(pods, replicas...)
			return err
		}); err != nil {
			return err
		}
	}
	var picture *os.File
	var err error
	if o.svg != "" { // before what takes long
		if picture, err = os.Create(o.svg); err != nil {
			return err
		}
		defer func() { _ = picture.Close() }() // the first error is the answer
	}
	result, err := replay.Play(pods, o.Options, o.all)
	if err != nil {
		return err
	}
	if picture != nil {
		if err := errors.Join(result.WriteSVG(picture, o.title()), picture.Close()); err != nil {
			return fmt.Errorf("writing %s: %w", o.svg, err)
		}
	}
	if o.output == "json" {
		return text.JSON(out, result)
	}
	_, err = fmt.Fprint(out, result)
	return err
}

// title is the picture's.
func (o *replaying) title() string {
	title := "GPUs paid for and requested"
	for _, name := range []string{o.pods, o.requests} {
		if name != "" {
			title += ", " + filepath.Base(name)
		}
	}
	return title
}

// processorTime is the processor time that the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// readPods reads a pod list: JSON of kubectl get pods -o json where it begins with a
// brace, else CSV.
func readPods(name string, r io.Reader) ([]replay.Pod, error) {
	all, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(all), []byte("{")) {
		return replay.ReadPods(name, bytes.NewReader(all))
	}
	var list corev1.PodList
	if err := json.Unmarshal(all, &list); err != nil {
		if text, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("%s:%d: %w", name, 1+bytes.Count(all[:text.Offset], []byte("\n")), err)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if list.Kind != "List" && list.Kind != "PodList" {
		return nil, fmt.Errorf("%s: kind: %q: want the List of kubectl get pods -A -o json", name, list.Kind)
	}
	return traceOf(name, list.Items)
}

// traceOf returns pods as a trace. A pod that still runs does so until the newest time in the list.
func traceOf(name string, items []corev1.Pod) ([]replay.Pod, error) {
	var newest time.Time
	for i := range items {
		p := &items[i]
		if p.CreationTimestamp.IsZero() {
			return nil, fmt.Errorf("%s: items[%d].metadata.creationTimestamp: missing", name, i)
		}
		newest = slices.MaxFunc([]time.Time{newest, p.CreationTimestamp.Time, boundAt(p), endedAt(p)}, time.Time.Compare)
	}
	pods := make([]replay.Pod, 0, len(items))
	for i := range items {
		p := &items[i]
		one := podOf(p)
		if p.Kind != "" && p.Kind != "Pod" {
			one.Unplayed = "not a pod"
		}
		one.Created = p.CreationTimestamp.Sub(time.Unix(0, 0))
		if bound, ended := boundAt(p), endedAt(p); !bound.IsZero() {
			if ended.IsZero() {
				ended = newest
				if kube.IsOver(p) {
					one.Unplayed = "ended at an unknown time"
				}
			}
			one.Run = max(ended.Sub(bound), 0)
		}
		pods = append(pods, one)
	}
	return pods, nil
}

// boundAt is when a pod was scheduled, zero for never.
func boundAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// endedAt is when the last container of an ended pod ended. It is zero for a pod that has not ended, and where the
// kubelet has reported no end, as for evicted pods.
func endedAt(p *corev1.Pod) time.Time {
	var at time.Time
	if !kube.IsOver(p) {
		return at
	}
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	return at
}

// podOf is what a pod requests.
func podOf(p *corev1.Pod) replay.Pod {
	seen := observe.NewClaims(nil, nil, nil, nil).ConvertPod(p)
	d := seen.Demand
	out := replay.Pod{Name: seen.Namespace + "." + seen.Name, CPU: int(seen.CPUMilli), Memory: int(seen.MemoryMi), Gang: seen.Gang}
	switch {
	case seen.Unreadable != "":
		out.Unplayed = "a request that cannot be read"
	case len(d.MIG) == 1 && d.MIG[0].Count == 1 && d.GPUs == 0 && d.Fraction == nil:
		out.Profile = d.MIG[0].Name
	case len(d.MIG) > 0 || d.Fraction != nil && (d.GPUs > 0 || d.Fraction.GPUs > 1 || max(d.Fraction.CoreMilli, d.Fraction.MemoryMilli) == 0):
		out.Unplayed = "parts of GPUs that are more than one, or of no stated size"
	case d.Fraction != nil:
		out.GPUs, out.Milli = 1, min(max(d.Fraction.CoreMilli, d.Fraction.MemoryMilli), 1000)
	case d.GPUs > 0:
		out.GPUs, out.Milli = d.GPUs, 1000
	}
	return out
}
