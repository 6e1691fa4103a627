package compat

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
)

var namespaces = schema.GroupResource{Resource: "namespaces"}

// resourceRule maps labels to Kubernetes resources and back, as in the file. The
// cluster's resources are in mapping.
type resourceRule struct {
	overrides map[string]schema.GroupResource // as written: "pod" and "pods" alike
	template  *template.Template              // nil if there is none
	pattern   *regexp.Regexp                  // matches the template's labels
}

// read returns the field that is wrong, and how.
func (r *resourceRule) read(raw rawResources) (field string, err error) {
	r.overrides = map[string]schema.GroupResource{}
	for label, to := range raw.Overrides {
		if to.Resource == "" {
			return "resources.overrides." + label, errors.New("resource is required, for example {resource: pod}")
		}
		r.overrides[label] = schema.GroupResource(to)
	}
	if raw.Template == "" {
		return "", nil
	}
	q, err := newQueryTemplate(raw.Template)
	if err == nil {
		r.template = q.Template
		r.pattern, err = labelPattern(r.template)
	}
	return "resources.template", err
}

// labelPattern returns the expression that a template's labels match: the
// template rendered with groups for the two names. Its plain parts are part of
// the expression, unquoted, as in v0.12.0.
func labelPattern(t *template.Template) (*regexp.Regexp, error) {
	out := limited{left: maxQueryBytes}
	if err := t.Execute(&out, schema.GroupResource{Group: "(?P<group>.+?)", Resource: "(?P<resource>.+?)"}); err != nil {
		return nil, err
	}
	pattern, err := regexp.Compile("^" + out.String() + "$")
	if err != nil {
		return nil, err
	}
	if pattern.SubexpIndex("resource") < 0 {
		return nil, errors.New("must contain <<.Resource>>")
	}
	return pattern, nil
}

// mapping is a resourceRule in a cluster.
type mapping struct {
	rule      *resourceRule
	mapper    apimeta.RESTMapper
	overrides map[string]schema.GroupResource // by label
}

// newMapping also returns the resources of the file that the cluster does not have.
func newMapping(rule *resourceRule, mapper apimeta.RESTMapper) (m mapping, unknown []string) {
	m = mapping{rule, mapper, map[string]schema.GroupResource{}}
	for label, written := range rule.overrides {
		gr, err := m.normal(written)
		if err != nil {
			unknown = append(unknown, written.String())
			continue
		}
		m.overrides[label] = gr
	}
	slices.Sort(unknown)
	return m, unknown
}

// normal returns a resource's full, plural name.
func (m mapping) normal(gr schema.GroupResource) (schema.GroupResource, error) {
	info, _, err := cma.CustomMetricInfo{GroupResource: gr}.Normalized(m.mapper)
	return info.GroupResource, err
}

// of returns the resources that a series with these labels is about, and whether
// it counts as namespaced: as in v0.12.0, if it has any label that does not name
// a cluster-scoped resource.
func (m mapping) of(names []string) (found []schema.GroupResource, namespaced bool) {
	for _, label := range names {
		gr, ok := m.overrides[label]
		if written, matches := m.rule.extract(label); !ok && matches {
			var err error
			if gr, err = m.normal(written); err != nil {
				continue
			}
			ok = true
		}
		if ok && !slices.Contains(found, gr) {
			found = append(found, gr)
		}
		namespaced = namespaced || !rootScoped(gr)
	}
	return found, namespaced
}

// extract returns the resource that the template's label names.
func (r *resourceRule) extract(label string) (gr schema.GroupResource, ok bool) {
	if r.pattern == nil {
		return gr, false
	}
	match := r.pattern.FindStringSubmatch(label)
	for i, name := range r.pattern.SubexpNames() {
		switch {
		case match == nil:
		case name == "resource":
			gr.Resource = match[i]
		case name == "group":
			gr.Group = match[i]
		}
	}
	return gr, match != nil
}

// inLabels escapes an API group for a label name.
var inLabels = strings.NewReplacer(".", "_", "-", "_")

// label returns the label that names objects of a resource in queries. Several
// overrides may name one resource; the first in order of the labels counts.
func (m mapping) label(gr schema.GroupResource) (string, error) {
	for _, label := range slices.Sorted(maps.Keys(m.overrides)) {
		if m.overrides[label] == gr {
			return label, nil
		}
	}
	if m.rule.template == nil {
		return "", fmt.Errorf("no label is mapped to %s: add resources.overrides or resources.template", gr)
	}
	singular, err := m.mapper.ResourceSingularizer(gr.Resource)
	if err != nil {
		return "", fmt.Errorf("the singular of %s: %w", gr, err)
	}
	out := limited{left: maxQueryBytes}
	if err := m.rule.template.Execute(&out, schema.GroupResource{Group: inLabels.Replace(gr.Group), Resource: singular}); err != nil {
		return "", fmt.Errorf("the label of %s: %w", gr, err)
	}
	if out.Len() == 0 {
		return "", fmt.Errorf("the label of %s is empty", gr)
	}
	return out.String(), nil
}

// rootScoped names the resources whose metrics v0.12.0 never counts as
// namespaced.
func rootScoped(gr schema.GroupResource) bool {
	return gr.Group == "" && slices.Contains([]string{"namespaces", "nodes", "persistentvolumes"}, gr.Resource)
}
