package foreign

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// mostOfAnything that a pod is believed to want: more than any cluster has.
const mostOfAnything = 1e18

// sane refuses amounts that nobody can mean. A quantity such as 1e999999999 is easily
// written, and comparing it with another takes longer than anybody lives: templates in
// custom resources are not looked at by the API server.
func (o *Object) sane() error {
	if o.Group != nil {
		return saneList("minResources", o.Group.Needs)
	}
	if o.Maker == nil {
		return nil
	}
	for i := range o.Maker.Roles {
		spec := &o.Maker.Roles[i].Template.Spec
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
			return fmt.Errorf("%s: %s is more than there can be", where, name)
		}
	}
	return nil
}
