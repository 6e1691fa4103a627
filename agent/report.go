package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// publish writes the report to the node if it has changed; at most once per period, unless urgent.
func (a *Agent) publish(ctx context.Context, node *corev1.Node, urgent bool) error {
	now := a.o.Now()
	// A clock that was set back must not suppress reports.
	if age := now.Sub(a.published); !urgent && age >= 0 && age < a.o.Config.Period.Duration {
		return nil
	}
	machine, readErr := a.gpus.Read(ctx)
	allocated, allocErr := a.o.Kubelet.Allocations(ctx)
	report := a.report(machine, allocated, now)
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
	a.o.Metrics.reported(now)
	a.Health.published(readErr)
	return err
}

// due reports whether the report on the node must be replaced: it differs, is old, or has a time in
// the future.
func due(standing string, report contract.Report, now time.Time) bool {
	had, err := contract.ParseReport(standing)
	age := now.Sub(had.At)
	return err != nil || !had.Same(report) || age < 0 || age >= contract.ReportEvery
}

// report returns the machine in the annotation's form.
func (a *Agent) report(m hardware.Machine, allocated map[string]string, now time.Time) contract.Report {
	r := contract.Report{Driver: m.Driver, GPUs: []contract.GPUReport{}}
	free := map[string]time.Time{}
	for _, c := range m.GPUs {
		out := contract.GPUReport{Index: c.Index, UUID: c.UUID, MIG: c.MIG}
		if c.Product != "" {
			out.Model = gpu.ProductName(c.Product)
		}
		if c.Err != nil {
			out.Problem, out.MIG = c.Err.Error(), false
		}
		for _, i := range c.Instances {
			if !i.Whole || c.Err != nil {
				continue
			}
			instance := contract.InstanceReport{Place: i.Placement.String(), UUID: i.UUID, AllocatedTo: allocatedTo(i, allocated)}
			if instance.AllocatedTo == "" && allocated != nil {
				since, seen := a.free[i.UUID]
				if !seen || since.After(now) {
					since = now.UTC().Truncate(time.Second)
				}
				free[i.UUID], instance.Since = since, &since
			}
			out.Instances = append(out.Instances, instance)
		}
		r.GPUs = append(r.GPUs, out)
	}
	a.free = free
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
