package pods

import (
	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/gpu/demand"
)

// annotated returns the claims that the annotations of a fractional dialect's
// scheduler state. An error names the annotation; the claims of the others stand.
func annotated(p *Pod) ([]Claim, error) {
	containers := make([]demand.Container, len(p.Containers))
	for i, c := range p.Containers {
		containers[i] = demand.Container{Name: c.Name, Resources: c.Resources}
	}
	all, err := demand.FromAnnotations(p.Annotations, containers)
	var claims []Claim
	for _, a := range all {
		claims = append(claims, Claim{Resource: a.Key, DeviceID: a.ID, Allocation: collect.Allocation{
			Namespace: p.Namespace, Pod: p.Name, Container: containers[a.Container].Name,
		}})
	}
	return claims, err
}
