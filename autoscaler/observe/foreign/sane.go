package foreign

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// mostOfAnything bounds a pod's request of a resource: more than any cluster has.
const mostOfAnything = 1e18

// sane rejects absurd quantities. Comparing a quantity such as 1e999999999 with another does not
// end in practice, and the API server does not validate templates in custom resources.
func (o *Object) sane() error {
	if o.Group != nil {
		return saneList("minResources", o.Group.Needs)
	}
	var templates []*corev1.PodTemplateSpec
	if o.Template != nil {
		templates = append(templates, o.Template)
	}
	if o.Maker != nil {
		for i := range o.Maker.Roles {
			templates = append(templates, &o.Maker.Roles[i].Template)
		}
	}
	for _, t := range templates {
		spec := &t.Spec
		if err := saneList("overhead", spec.Overhead); err != nil {
			return err
		}
		all := []*corev1.ResourceRequirements{spec.Resources}
		for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for j := range containers {
				all = append(all, &containers[j].Resources)
			}
		}
		for _, r := range all {
			if r == nil {
				continue
			}
			for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
				if err := saneList("a template's resources", list); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func saneList(where string, list corev1.ResourceList) error {
	for name, q := range list {
		if v := q.AsApproximateFloat64(); !(v >= -mostOfAnything && v <= mostOfAnything) {
			return fmt.Errorf("%s: %s exceeds every possible amount", where, name)
		}
	}
	return nil
}
