package gather

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/report/doctor"
)

// metrics collects the names of a group's metrics from its discovery page:
// "pods/queue_depth" is queue_depth.
func metrics(all *[]string) sink {
	return func(raw []byte) (string, int, error) {
		var list metav1.APIResourceList
		if err := json.Unmarshal(raw, &list); err != nil {
			return "", 0, fmt.Errorf("reading a discovery page: %w", err)
		}
		for _, r := range list.APIResources {
			*all = append(*all, r.Name[strings.LastIndexByte(r.Name, '/')+1:])
		}
		return "", len(list.APIResources), nil
	}
}

// key is a namespace and a name.
type key struct{ namespace, name string }

// second reads single objects that the lists name. There are few: one CRD a kind, one
// Service an adapter, one ConfigMap a program.
func (l *look) second(ctx context.Context) {
	f := l.facts
	described := map[doctor.Source]doctor.Described{}
	for _, d := range doctor.Table {
		described[d.Source] = d
	}
	if d := described[doctor.CRDs]; l.wanted(d.Source) {
		for _, name := range []string{"gpunodepools.gpuscale.io", "gpuquotas.gpuscale.io"} {
			one(ctx, l, d, fmt.Sprintf(d.Paths[0], name), &f.CRDs)
		}
	}
	if d := described[doctor.Services]; l.wanted(d.Source) {
		for _, k := range l.services() {
			one(ctx, l, d, fmt.Sprintf(d.Paths[0], k.namespace, k.name), &f.Services)
		}
	}
	if d := described[doctor.EndpointSlices]; l.wanted(d.Source) {
		for _, k := range l.services() {
			query := url.Values{"labelSelector": {"kubernetes.io/service-name=" + k.name}}
			if err := l.kube.list(ctx, fmt.Sprintf(d.Paths[0], k.namespace), query, into(&f.EndpointSlices, nil)); err != nil {
				l.missing(d, err)
			}
		}
	}
	if d := described[doctor.ConfigMaps]; l.wanted(d.Source) {
		for _, k := range l.configs() {
			one(ctx, l, d, fmt.Sprintf(d.Paths[0], k.namespace, k.name), &f.ConfigMaps)
		}
	}
	if d := described[doctor.Leases]; l.wanted(d.Source) {
		for _, k := range l.homes() {
			if err := l.kube.list(ctx, fmt.Sprintf(d.Paths[0], k.namespace), nil, into(&f.Leases, nil)); err != nil {
				l.missing(d, err)
			}
		}
	}
}

// one reads one object. A missing object is an answer: it is absent from the facts.
func one[T any](ctx context.Context, l *look, d doctor.Described, path string, all *[]*T) {
	raw, err := l.kube.get(ctx, path, nil)
	if code(err) == http.StatusNotFound {
		return
	}
	var v T
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		l.missing(d, err)
		return
	}
	*all = append(*all, &v)
}

// maxNamed bounds the objects of one kind that are read one by one.
const maxNamed = 10

// services that APIServices of the metrics groups name, those of our programs, and those
// of webhooks that could stop them.
func (l *look) services() []key {
	var all []key
	for _, a := range l.facts.APIServices {
		if doctor.IsMetrics(a.Spec.Group) && a.Spec.Service != nil && valid(a.Spec.Service.Namespace, a.Spec.Service.Name) {
			all = add(all, key{a.Spec.Service.Namespace, a.Spec.Service.Name})
		}
	}
	for _, p := range l.facts.Programs("adapter") {
		all = add(all, key{p.Namespace, p.Name})
	}
	for _, w := range l.facts.Webhooks() { // maxCalls bounds them
		if k := (key{w.Service.Namespace, w.Service.Name}); valid(k.namespace, k.name) && !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return all
}

// configs are the ConfigMaps that autoscalers are configured by.
func (l *look) configs() []key {
	var all []key
	for _, p := range l.facts.Programs("autoscaler") {
		if valid(p.Namespace, p.ConfigMap) {
			all = add(all, key{p.Namespace, p.ConfigMap})
		}
	}
	return all
}

// homes are the namespaces of the autoscalers' Leases.
func (l *look) homes() []key {
	var all []key
	for _, p := range l.facts.Programs("autoscaler") {
		all = add(all, key{namespace: p.Namespace})
	}
	return all
}

func add(all []key, k key) []key {
	if slices.Contains(all, k) || len(all) >= maxNamed {
		return all
	}
	return append(all, k)
}

// valid rejects names that would change a path.
func valid(parts ...string) bool {
	for _, p := range parts {
		if p == "" || p == "." || p == ".." || strings.ContainsAny(p, "/?#%") {
			return false
		}
	}
	return true
}
