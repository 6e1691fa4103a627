package foreign

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// groupOver are the phases in which all pods of a PodGroup have ended.
var groupOver = map[Kind][]string{VolcanoPodGroup: {"Completed"}, PluginsPodGroup: {"Finished", "Failed"}}

// parsePodGroup reads a PodGroup of Volcano, scheduler-plugins or KAI.
func parsePodGroup(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			MinMember    *int64              `json:"minMember"`
			MinResources corev1.ResourceList `json:"minResources"`
			Queue        string              `json:"queue"`
			Topology     struct {
				RequiredLevel string `json:"requiredTopologyLevel"`
			} `json:"topologyConstraint"` // KAI's
		} `json:"spec"`
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	o.Group = &PodGroup{
		Min: bounded(from.Spec.MinMember, 0), Needs: from.Spec.MinResources, Queue: from.Spec.Queue,
		Over: slices.Contains(groupOver[o.Kind], from.Status.Phase), Near: from.Spec.Topology.RequiredLevel,
	}
	if o.Kind == VolcanoPodGroup && o.Group.Queue == "" {
		o.Group.Queue = "default"
	}
	return nil
}

func parseBuiltInPodGroup(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			SchedulingPolicy struct {
				Gang *struct {
					MinCount *int64 `json:"minCount"`
				} `json:"gang"`
			} `json:"schedulingPolicy"`
			SchedulingConstraints struct {
				Topology []struct {
					Key string `json:"key"`
				} `json:"topology"` // one at most, as of 1.37
			} `json:"schedulingConstraints"`
		} `json:"spec"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	o.Group = &PodGroup{}
	if topology := from.Spec.SchedulingConstraints.Topology; len(topology) > 0 {
		o.Group.Near = topology[0].Key
	}
	if gang := from.Spec.SchedulingPolicy.Gang; gang != nil {
		o.Group.Min = bounded(gang.MinCount, 0)
	}
	return nil
}
