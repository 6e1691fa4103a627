package doctor

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// key is a namespace and a name; one of them may be empty.
type key struct{ namespace, name string }

func ourCRDs(*reading, *Source) (all []key) {
	for _, k := range kinds {
		all = append(all, key{name: k.crd})
	}
	return all
}

func configMaps(r *reading, _ *Source) (all []key) {
	for _, p := range few(r.facts.Programs("autoscaler")) {
		all = append(all, key{p.Namespace, p.ConfigMap})
	}
	return all
}

func leases(r *reading, _ *Source) (all []key) {
	for _, p := range few(r.facts.Programs("autoscaler")) {
		all = append(all, key{namespace: p.Namespace})
	}
	return all
}

// failedCreate is the reason of Events about pods that a controller could not create.
const failedCreate = "FailedCreate"

func isRefusal(e *corev1.Event) bool {
	return e.Reason == failedCreate && e.Type == corev1.EventTypeWarning
}

// refusedOf are the workloads of a kind whose pods were refused.
func refusedOf(kind string) func(*reading, *Source) []key {
	return func(r *reading, s *Source) (all []key) {
		for _, e := range r.facts.refused() {
			if of := e.InvolvedObject; of.Kind == kind {
				all = append(all, key{of.Namespace, of.Name})
			}
		}
		if len(all) > maxNamed {
			r.unknown(s, fmt.Sprintf("only the first %d of %d %s whose pods were refused were read", maxNamed, len(all), s.Name))
		}
		return few(all)
	}
}

func few[T any](all []T) []T { return all[:min(len(all), maxNamed)] }

// services that APIServices of the metrics groups name, those of our programs, and those
// of webhooks that could stop them.
func services(r *reading, _ *Source) []key {
	var all []key
	for _, a := range r.facts.APIServices {
		if isMetrics(a.Spec.Group) && a.Spec.Service != nil {
			all = append(all, key{a.Spec.Service.Namespace, a.Spec.Service.Name})
		}
	}
	for _, p := range r.facts.Programs("adapter") {
		all = append(all, key{p.Namespace, p.Name})
	}
	all = few(all)
	for _, w := range r.facts.webhooks() { // maxCalls bounds them
		all = append(all, key{w.service.Namespace, w.service.Name})
	}
	return all
}
