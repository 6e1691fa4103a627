package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// Options of an Agent. All but Metrics, Log and Now are required.
type Options struct {
	Cluster  *Cluster
	Hardware *hardware.NVML
	Kubelet  *Kubelet
	Config   Config
	// Boot is the machine's boot ID, as in the node's status.
	Boot    string
	Metrics *Metrics
	Log     *slog.Logger
	Now     func() time.Time
}

// Agent is the agent of one node. Only Health is safe for concurrent use.
type Agent struct {
	// Health backs /readyz.
	Health *Health

	o         Options
	published time.Time
	repeated  kube.Repeated // errors of ticks
}

// New returns an Agent.
func New(o Options) *Agent {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Metrics == nil {
		o.Metrics = newMetrics(prometheus.NewRegistry())
	}
	return &Agent{o: o, Health: newHealth(o.Config), repeated: kube.Repeated{}}
}

// Run ticks on every change of the node and every period, until ctx ends.
func (a *Agent) Run(ctx context.Context) {
	changes := make(chan struct{}, 1)
	go a.o.Cluster.watch(ctx, changes)
	for ctx.Err() == nil {
		err := a.Tick(ctx)
		a.Health.ticked(err)
		if ctx.Err() == nil {
			a.warn(err)
		}
		select {
		case <-ctx.Done():
		case <-changes:
		case <-time.After(a.o.Config.Period.Duration):
		}
	}
}

// warn logs the error of a tick, once while it is repeated. A conflict is usual, since others write to the node too: the
// next tick reads it again.
func (a *Agent) warn(err error) {
	if !apierrors.IsConflict(err) && a.repeated.New(err, a.o.Now()) {
		a.o.Log.Warn("the node's GPUs cannot be managed", "error", err)
	}
}

// Tick reads the node once and carries out the operation on it, if any, to its end.
func (a *Agent) Tick(ctx context.Context) error {
	node, err := a.o.Cluster.Node(ctx)
	if err != nil {
		return err
	}
	record, ok, err := contract.RecordOf(node)
	worked := false
	switch {
	case err != nil:
		err = fmt.Errorf("GPUs left unchanged: %w", err)
	case ok && record.Actuator == contract.ActuatorAgent && (record.Selected || record.Undo != nil):
		if worked, err = a.serve(ctx, node, record); worked {
			if now, getErr := a.o.Cluster.Node(ctx); getErr == nil {
				node = now
			}
		}
	case !ok && node.Annotations[contract.AgentAnnotation] != "":
		err = a.o.Cluster.annotate(ctx, node.ResourceVersion, map[string]any{contract.AgentAnnotation: nil})
	}
	return errors.Join(err, a.publish(ctx, node, worked))
}

// Health is the state of an agent. It is safe for concurrent use.
type Health struct {
	now   func() time.Time
	stale time.Duration // the age at which a report is old

	mu    sync.Mutex
	wrote time.Time // a report, zero for never
	err   error     // why the last tick failed, or the GPUs could not be read
}

// newHealth allows for three periods, plus the time-outs of one step and of the device plugin's restart.
func newHealth(c Config) *Health {
	step := c.CallTimeout.Duration + c.Exporter.Timeout.Duration + kubeletTimeout + 2*time.Duration(retry.DefaultRetry.Steps)*requestTimeout
	return &Health{now: time.Now, stale: 3*c.Period.Duration + step + c.PluginTimeout.Duration}
}

func (h *Health) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// Waiting records that another agent has the machine's lock.
func (h *Health) Waiting() {
	h.set(func() { h.err = errors.New("another agent runs on this machine") })
}

// published records a report on the node; err is why the report lacks the GPUs.
func (h *Health) published(err error) { h.set(func() { h.wrote, h.err = h.now(), err }) }

// ticked records the result of a tick.
func (h *Health) ticked(err error) { h.set(func() { h.err = cmp.Or(err, h.err) }) }

// Ready returns why the annotation on the node may not be the state of the GPUs, nil if it is.
func (h *Health) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch since := h.now().Sub(h.wrote); {
	case h.wrote.IsZero():
		return errors.Join(errors.New("the GPUs have not been reported yet"), h.err)
	case h.err != nil:
		return h.err
	case since > h.stale:
		return fmt.Errorf("the GPUs were reported %s ago, more than %s", since.Round(time.Second), h.stale)
	}
	return nil
}

// lockEvery is the interval at which a second agent retries the lock.
const lockEvery = time.Second

// lock waits for the file's lock, and holds it until release is called or the process ends, however it ends. Two agents
// on one machine would destroy each other's instances. waiting is called on each failed try. An empty path locks
// nothing.
func lock(ctx context.Context, path string, waiting func()) (release func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lockFile: %w", err)
	}
	err = wait.PollUntilContextCancel(ctx, lockEvery, true, func(context.Context) (bool, error) {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
			waiting()
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lockFile %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}

// publish writes the report to the node if it has changed; at most once per period, unless urgent.
func (a *Agent) publish(ctx context.Context, node *corev1.Node, urgent bool) error {
	now := a.o.Now()
	// A clock that was set back must not suppress reports.
	if age := now.Sub(a.published); !urgent && age >= 0 && age < a.o.Config.Period.Duration {
		return nil
	}
	machine, readErr := a.read(ctx)
	_, allocErr := a.o.Kubelet.Allocations(ctx) // an operation requires them
	report := reportOf(machine)
	report.At, report.Node, report.Boot = now.UTC().Truncate(time.Second), string(node.UID), a.o.Boot
	a.o.Metrics.machine(machine, readErr)
	switch {
	case readErr != nil:
		report.Problem = readErr.Error()
	case allocErr != nil:
		report.Problem = allocErr.Error()
	default:
		if err := a.permitted(node, machine); err != nil {
			report.Problem = err.Error()
		}
	}
	a.o.Metrics.permitted(report.Problem == "")
	change := map[string]any{}
	if due(node.Annotations[contract.LayoutAnnotation], report, now) {
		change[contract.LayoutAnnotation] = report.String()
	}
	// The last tables stay valid while a GPU cannot be read.
	tables, err := tablesOf(machine)
	if err == nil && tables != "" && tables != node.Annotations[contract.TableAnnotation] {
		change[contract.TableAnnotation] = tables
	}
	if len(change) > 0 {
		if err := a.o.Cluster.annotate(ctx, "", change); err != nil {
			return err
		}
	}
	a.published = now
	a.o.Metrics.last.Set(float64(now.UnixMilli()) / 1000)
	a.Health.published(readErr)
	return err
}

// read reads the GPUs, times it and counts the driver's errors.
func (a *Agent) read(ctx context.Context) (hardware.Machine, error) {
	defer a.o.Metrics.timed(verbRead, time.Now())
	machine, err := a.o.Hardware.Read(ctx)
	a.o.Metrics.failed(err)
	for _, c := range machine.GPUs {
		a.o.Metrics.failed(c.Err)
	}
	return machine, err
}

// due reports whether the report on the node must be replaced: it differs, is old, or has a time in
// the future.
func due(standing string, report contract.Report, now time.Time) bool {
	had, err := contract.ParseReport(standing)
	age := now.Sub(had.At)
	return err != nil || !had.Same(report) || age < 0 || age >= contract.ReportEvery
}

// reportOf returns the machine in the annotation's form.
func reportOf(m hardware.Machine) contract.Report {
	r := contract.Report{Driver: m.Driver, GPUs: []contract.GPUReport{}}
	for _, c := range m.GPUs {
		out := contract.GPUReport{Index: c.Index, UUID: c.UUID, MIG: c.MIG}
		if c.Product != "" {
			out.Model = gpu.ProductName(c.Product)
		}
		if c.Err != nil {
			out.Problem, out.MIG = c.Err.Error(), false
		}
		for _, i := range c.Instances {
			if i.Whole && c.Err == nil {
				out.Instances = append(out.Instances, contract.InstanceReport{Place: i.Placement.String(), UUID: i.UUID})
			}
		}
		r.GPUs = append(r.GPUs, out)
	}
	return r
}

// allocatedTo returns the pod or process that uses an instance; empty for none.
func allocatedTo(i hardware.Instance, allocated map[string]string) string {
	for _, uuid := range append([]string{i.UUID}, i.More...) {
		if pod := allocated[uuid]; pod != "" {
			return pod
		}
	}
	if len(i.PIDs) > 0 {
		return fmt.Sprintf("pid %d", slices.Min(i.PIDs))
	}
	return ""
}

// tablesOf returns the products' geometries as the driver reports them; empty where it reports
// none.
func tablesOf(m hardware.Machine) (string, error) {
	var specs []mig.Spec
	for _, c := range m.GPUs {
		same := func(s mig.Spec) bool { return s.Model == c.Spec.Model }
		if c.Err == nil && len(c.Spec.Profiles) > 0 && !slices.ContainsFunc(specs, same) {
			specs = append(specs, c.Spec)
		}
	}
	if len(specs) == 0 {
		return "", nil
	}
	return contract.FormatTables(specs)
}
