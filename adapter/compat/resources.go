package compat

import (
	"maps"
	"slices"

	pmodel "github.com/prometheus/common/model"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
	theirs "sigs.k8s.io/prometheus-adapter/pkg/client"
	"sigs.k8s.io/prometheus-adapter/pkg/config"
	"sigs.k8s.io/prometheus-adapter/pkg/naming"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// namer is v0.12.0's own mapping of a rule's series to names and resources in a cluster.
type namer struct {
	naming.MetricNamer
	overrides map[string]schema.GroupResource // by label
}

// namer returns a good rule's mapping, and the resources of the file that the cluster does not
// have: v0.12.0 does not start then.
func (r *Rule) namer(mapper apimeta.RESTMapper) (n namer, unknown []string, err error) {
	rule := r.raw
	n.overrides, rule.Resources.Overrides = map[string]schema.GroupResource{}, maps.Clone(rule.Resources.Overrides)
	maps.DeleteFunc(rule.Resources.Overrides, func(label string, to config.GroupResource) bool {
		info, _, err := cma.CustomMetricInfo{GroupResource: schema.GroupResource(to)}.Normalized(mapper)
		if err != nil {
			unknown = append(unknown, schema.GroupResource(to).String())
			return true
		}
		n.overrides[label] = info.GroupResource
		return false
	})
	slices.Sort(unknown)
	all, err := naming.NamersFromConfig([]config.DiscoveryRule{rule}, mapper)
	if err == nil {
		n.MetricNamer = all[0]
	}
	return n, unknown, err
}

// serves returns the API's name for a family of series, and false if a filter excludes it or
// the name is empty.
func (n namer) serves(f prom.Family) (name string, s theirs.Series, ok bool) {
	s = theirs.Series{Name: f.Name, Labels: pmodel.LabelSet{}}
	for _, label := range f.Labels {
		s.Labels[pmodel.LabelName(label)] = ""
	}
	if len(n.FilterSeries([]theirs.Series{s})) == 0 {
		return "", s, false
	}
	name, err := n.MetricNameForSeries(s)
	return name, s, err == nil && name != ""
}

// label returns the label that names objects of a resource in queries. Several
// overrides may name one resource; the first in order of the labels counts.
func (n namer) label(gr schema.GroupResource) (string, error) {
	for _, label := range slices.Sorted(maps.Keys(n.overrides)) {
		if n.overrides[label] == gr {
			return label, nil
		}
	}
	label, err := n.LabelForResource(gr)
	return string(label), err
}

// rootScoped are the resources whose metrics v0.12.0 never counts as namespaced.
var rootScoped = []schema.GroupResource{naming.NsGroupResource, naming.NodeGroupResource, naming.PVGroupResource}
