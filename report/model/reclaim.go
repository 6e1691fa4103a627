package model

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/report/query"
)

// reclaim is about pods that did not compute for a quarter of an hour or more, by
// workload. It also returns the workloads of which most is proposed to be reclaimed.
func (m *maker) reclaim() ([]Action, map[workKey]bool) {
	var all []Action
	taken := map[workKey]bool{}
	d := m.a.Dialect
	for _, w := range m.sortedWork() {
		idle, _ := m.markedHours(w.idle)
		allocated, _ := m.markedHours(w.allocated)
		if idle == 0 {
			continue
		}
		taken[w.workKey] = idle > allocated/2
		expression := "max by (" + metric.LabelGPUUUID + ", " + metric.LabelGPUInstanceID + ") (" + d.Select(metric.GPUIdleSeconds.Name, w.matchers(d)...) + fmt.Sprintf(") > bool %d", query.IdleAfter)
		verb, patch, word, because := "has", w.stop(), "", ""
		if !w.atEnd() {
			verb, word, because = "had", "low", "nothing was allocated to it at the end"
			patch = fmt.Sprintf("kubectl -n %s get deployments,statefulsets,jobs,cronjobs | grep %s   # nothing to stop now: see what may start it again", shell(w.namespace), shell(w.name))
		}
		all = append(all, m.action(Action{
			Kind: "reclaim", Effect: frees,
			Title: fmt.Sprintf("%s/%s %s %s allocated without computing", w.namespace, w.name, verb, things(w.profile)),
			Hours: Known(idle * w.part()), Money: m.modelMoney(w.model, idle*w.part()), Patch: patch,
			Risk:       "The next request is delayed by a start. Ask the owner first.",
			Confidence: word, Because: because, Query: m.sampled(expression, w.part()),
		}, w.namespace, w.name, w.profile))
	}
	return all, taken
}

func things(profile string) string {
	if profile == "" {
		return "whole GPUs"
	}
	return profile + " slices"
}

// stop is the command that releases a workload's GPUs.
func (w *work) stop() string {
	ns, name := shell(w.namespace), shell(w.name)
	switch w.kind {
	case "Deployment":
		return fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=0   # or an HPA with minReplicas: 0", ns, name)
	case "StatefulSet":
		return fmt.Sprintf("kubectl -n %s scale statefulset %s --replicas=0", ns, name)
	case "Pod":
		return fmt.Sprintf("kubectl -n %s delete pod %s", ns, name)
	}
	return fmt.Sprintf("kubectl -n %s get pods -o wide | grep %s   # find its owner, then suspend or scale that", ns, name)
}

// smaller turns right-sizing into actions, but for those of which most is to be
// reclaimed anyway.
func (m *maker) smaller(reclaimed map[workKey]bool) []Action {
	var all []Action
	d := m.a.Dialect
	for _, s := range m.r.MIG.RightSize {
		profile := s.From
		if profile == "whole GPU" {
			profile = ""
		}
		w := m.work[workKey{s.Namespace, s.Workload, profile}]
		if w == nil || reclaimed[w.workKey] {
			continue
		}
		allocated, _ := m.markedHours(w.allocated)
		expression := "max by (" + metric.LabelGPUUUID + ", " + metric.LabelGPUInstanceID + ") (" + d.Select(metric.GPUHeld.Name, w.matchers(d)...) + ")"
		word := "medium"
		if s.Evidence.Or(0) < 72 {
			word = "low"
		}
		all = append(all, m.action(Action{
			Kind: "right-size", Effect: frees,
			Title: fmt.Sprintf("%s/%s fits a %s slice in place of %s", s.Namespace, s.Workload, s.To, s.From),
			Hours: s.Hours, Money: m.modelMoney(w.model, s.Hours.Or(0)),
			Patch:      fmt.Sprintf("resources:            # of the container, in the pods of %s/%s\n  limits:\n    nvidia.com/mig-%s: 1", s.Namespace, s.Workload, strings.ReplaceAll(s.To, "+", ".")),
			Risk:       "A peak outside the window may not fit; throughput falls where compute is the bottleneck.",
			Confidence: word, Because: fmt.Sprintf("%.3g hours of one pod", s.Evidence.Or(0)),
			Query: m.sampled(expression, s.Hours.Or(0)/allocated),
		}, s.Namespace, s.Workload, s.From))
	}
	return all
}
