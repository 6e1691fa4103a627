package model

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/report/query"
)

// reclaim is about holders that did not compute for a quarter of an hour or more,
// by workload. It also returns the workloads of which most is proposed to be taken.
func (m *maker) reclaim() ([]Action, map[workKey]bool) {
	var all []Action
	taken := map[workKey]bool{}
	d := m.a.Dialect
	for _, w := range m.sortedWork() {
		idle, _ := m.markedHours(w.idle)
		held, _ := m.markedHours(w.held)
		if idle == 0 {
			continue
		}
		taken[w.workKey] = idle > held/2
		expression := "max by (" + metric.LabelGPUUUID + ", " + metric.LabelGPUInstanceID + ") (" + d.Select(metric.GPUIdleSeconds.Name, w.matchers(d)...) + fmt.Sprintf(") > bool %d", query.IdleAfter)
		word, because := m.confidence()
		holds, patch := "holds", w.stop()
		if !w.atEnd() {
			holds, word = "held", "low"
			because += "; it held nothing at the end"
			patch = fmt.Sprintf("kubectl -n %s get deployments,statefulsets,jobs,cronjobs | grep %s   # nothing to stop now: see what may start it again", shell(w.namespace), shell(w.name))
		}
		all = append(all, Action{
			ID: id("reclaim", w.namespace, w.name, w.profile), Kind: "reclaim", Effect: frees,
			Title: fmt.Sprintf("%s/%s %s %s without computing", w.namespace, w.name, holds, things(w.profile)),
			Hours: Known(idle * w.part()), Money: m.modelMoney(w.model, idle*w.part()), Patch: patch,
			Risk:       "Whoever waits for the next request waits for a start. Ask the owner first.",
			Confidence: word, Because: because, Query: m.sampled(expression, w.part()),
		})
	}
	return all, taken
}

func things(profile string) string {
	if profile == "" {
		return "whole cards"
	}
	return profile + " slices"
}

// stop is how what a workload holds is given back.
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
		if profile == "whole card" {
			profile = ""
		}
		w := m.work[workKey{s.Namespace, s.Workload, profile}]
		if w == nil || reclaimed[w.workKey] {
			continue
		}
		held, _ := m.markedHours(w.held)
		expression := "max by (" + metric.LabelGPUUUID + ", " + metric.LabelGPUInstanceID + ") (" + d.Select(metric.GPUHeld.Name, w.matchers(d)...) + ")"
		_, because := m.confidence()
		word := "medium"
		if s.Evidence.Or(0) < 72 {
			word = "low"
		}
		all = append(all, Action{
			ID: id("right-size", s.Namespace, s.Workload, s.From), Kind: "right-size", Effect: frees,
			Title: fmt.Sprintf("%s/%s would do with a %s slice in place of %s", s.Namespace, s.Workload, s.To, s.From),
			Hours: s.Hours, Money: m.modelMoney(w.model, s.Hours.Or(0)),
			Patch:      fmt.Sprintf("resources:            # of the container, in the pods of %s/%s\n  limits:\n    nvidia.com/mig-%s: 1", s.Namespace, s.Workload, strings.ReplaceAll(s.To, "+", ".")),
			Risk:       "A peak that was not in the window may not fit; throughput falls where the slice is the bound.",
			Confidence: word, Because: fmt.Sprintf("%s; %.3g hours of one holder", because, s.Evidence.Or(0)),
			Query: m.sampled(expression, s.Hours.Or(0)/held),
		})
	}
	return all
}
