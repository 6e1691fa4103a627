package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/hardware"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// publish writes what is seen of the cards on the node, where it differs; at most
// once in a period, unless there is news.
func (a *Agent) publish(ctx context.Context, node *corev1.Node, news bool) error {
	now := a.o.Now()
	// A clock that was set back must not keep the agent quiet until it is as late again.
	if age := now.Sub(a.published); !news && age >= 0 && age < a.o.Config.Period.Duration {
		return nil
	}
	machine, readErr := a.o.Hardware.Read(ctx)
	held, heldErr := a.o.Holders.Held(ctx)
	report := a.report(machine, held, now)
	report.At, report.Node, report.Boot = now.UTC().Truncate(time.Second), string(node.UID), a.o.Boot
	a.o.Metrics.machine(machine, readErr)
	switch {
	case readErr != nil:
		report.Problem = readErr.Error()
	case heldErr != nil:
		report.Problem = heldErr.Error()
	default:
		if err := a.permitted(node, machine); err != nil {
			report.Problem = err.Error()
		}
	}
	a.o.Metrics.permitted(report.Problem == "")
	change := map[string]any{}
	if due(node.Annotations[partition.LayoutAnnotation], report, now) {
		change[partition.LayoutAnnotation] = report.String()
	}
	// What was read before stays true while a card cannot be read.
	tables, err := tablesOf(machine)
	if err == nil && tables != "" && tables != node.Annotations[partition.TableAnnotation] {
		change[partition.TableAnnotation] = tables
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

// due reports whether a report is to be written over what stands on the node: it
// says something else, or that is old, or from a clock that was ahead.
func due(standing string, report partition.Report, now time.Time) bool {
	had, err := partition.ParseReport(standing)
	age := now.Sub(had.At)
	return err != nil || !had.Same(report) || age < 0 || age >= partition.ReportEvery
}

// report is the machine in the annotation's form.
func (a *Agent) report(m hardware.Machine, held map[string]string, now time.Time) partition.Report {
	r := partition.Report{Driver: m.Driver, Cards: []partition.CardReport{}}
	free := map[string]time.Time{}
	for _, c := range m.Cards {
		out := partition.CardReport{Index: c.Index, UUID: c.UUID, MIG: c.MIG}
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
			instance := partition.InstanceReport{Place: i.Placement.String(), UUID: i.UUID, Holder: holder(i, held)}
			if instance.Holder == "" && held != nil {
				since, seen := a.free[i.UUID]
				if !seen || since.After(now) {
					since = now.UTC().Truncate(time.Second)
				}
				free[i.UUID], instance.Since = since, &since
			}
			out.Instances = append(out.Instances, instance)
		}
		r.Cards = append(r.Cards, out)
	}
	a.free = free
	return r
}

// holder of an instance; empty for none.
func holder(i hardware.Instance, held map[string]string) string {
	for _, uuid := range append([]string{i.UUID}, i.More...) {
		if pod := held[uuid]; pod != "" {
			return pod
		}
	}
	if len(i.PIDs) > 0 {
		return fmt.Sprintf("pid %d", slices.Min(i.PIDs))
	}
	return ""
}

// tablesOf are the products' geometries as the driver has them; empty where it
// said nothing.
func tablesOf(m hardware.Machine) (string, error) {
	var specs []mig.Spec
	for _, c := range m.Cards {
		same := func(s mig.Spec) bool { return s.Model == c.Spec.Model }
		if c.Err == nil && len(c.Spec.Profiles) > 0 && !slices.ContainsFunc(specs, same) {
			specs = append(specs, c.Spec)
		}
	}
	if len(specs) == 0 {
		return "", nil
	}
	return partition.FormatTables(specs)
}
