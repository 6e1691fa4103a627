package doctor

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// key is a namespace and a name.
type key struct{ namespace, name string }

// one reads one object. A missing object is an answer: it is absent from the facts.
func one[T any](r *reading, s *Source, all *[]*T, names ...any) {
	for _, n := range names { // that would change a path
		if text := n.(string); text == "" || text == "." || text == ".." || strings.ContainsAny(text, "/?#%") {
			return
		}
	}
	raw, err := r.get(fmt.Sprintf(s.Paths[0], names...), nil)
	if apierrors.IsNotFound(err) {
		return
	}
	var v T
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		r.missing(s, err)
		return
	}
	*all = append(*all, &v)
}

func readCRDs(r *reading, s *Source) {
	for _, k := range kinds {
		one(r, s, &r.facts.CRDs, k.crd)
	}
}

func readServices(r *reading, s *Source) {
	for _, k := range r.facts.services() {
		one(r, s, &r.facts.Services, k.namespace, k.name)
	}
}

func readEndpointSlices(r *reading, s *Source) {
	for _, k := range r.facts.services() {
		path := fmt.Sprintf(s.Paths[0], url.PathEscape(k.namespace))
		r.missing(s, r.pages(path, labelService+"="+k.name, "", into(func(f *Facts) *[]*discoveryv1.EndpointSlice { return &f.EndpointSlices }, nil)(r.facts)))
	}
}

func readConfigMaps(r *reading, s *Source) {
	for _, p := range few(r.facts.Programs("autoscaler")) {
		one(r, s, &r.facts.ConfigMaps, p.Namespace, p.ConfigMap)
	}
}

func readLeases(r *reading, s *Source) {
	var read []string
	for _, p := range few(r.facts.Programs("autoscaler")) {
		if !slices.Contains(read, p.Namespace) {
			read = append(read, p.Namespace)
			r.missing(s, r.pages(fmt.Sprintf(s.Paths[0], url.PathEscape(p.Namespace)), "", "", into(func(f *Facts) *[]*lease { return &f.Leases }, nil)(r.facts)))
		}
	}
}

// failedCreate is the reason of Events about pods that a controller could not create.
const failedCreate = "FailedCreate"

func isRefusal(e *corev1.Event) bool {
	return e.Reason == failedCreate && e.Type == corev1.EventTypeWarning
}

// readRefused reads the workloads of a kind whose pods were refused.
func readRefused(kind string) func(*reading, *Source) {
	return func(r *reading, s *Source) {
		of := slices.DeleteFunc(r.facts.refused(), func(e *corev1.Event) bool { return e.InvolvedObject.Kind != kind })
		for _, e := range few(of) {
			one(r, s, &r.facts.Workloads, e.InvolvedObject.Namespace, e.InvolvedObject.Name)
		}
		if len(of) > maxNamed {
			r.unknown(s, fmt.Sprintf("only the first %d of %d %s whose pods were refused were read", maxNamed, len(of), s.Name))
		}
	}
}

func few[T any](all []T) []T { return all[:min(len(all), maxNamed)] }

// services that APIServices of the metrics groups name, those of our programs, and those
// of webhooks that could stop them.
func (f *Facts) services() []key {
	var all []key
	for _, a := range f.APIServices {
		if isMetrics(a.Spec.Group) && a.Spec.Service != nil {
			all = append(all, key{a.Spec.Service.Namespace, a.Spec.Service.Name})
		}
	}
	for _, p := range f.Programs("adapter") {
		all = append(all, key{p.Namespace, p.Name})
	}
	all = few(all)
	for _, w := range f.webhooks() { // maxCalls bounds them
		all = append(all, key{w.service.Namespace, w.service.Name})
	}
	var once []key
	for _, k := range all {
		if !slices.Contains(once, k) {
			once = append(once, k)
		}
	}
	return once
}
