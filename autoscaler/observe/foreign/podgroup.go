package foreign

import corev1 "k8s.io/api/core/v1"

func parseVolcanoPodGroup(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			MinMember    *int64              `json:"minMember"`
			MinResources corev1.ResourceList `json:"minResources"`
			Queue        string              `json:"queue"`
		} `json:"spec"`
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	if from.Spec.Queue == "" {
		from.Spec.Queue = "default"
	}
	o.Group = &PodGroup{
		Min: bounded(from.Spec.MinMember, 0), Needs: from.Spec.MinResources, Queue: from.Spec.Queue,
		Over: from.Status.Phase == "Completed",
	}
	return nil
}

func parsePluginsPodGroup(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			MinMember    *int64              `json:"minMember"`
			MinResources corev1.ResourceList `json:"minResources"`
		} `json:"spec"`
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	o.Group = &PodGroup{
		Min: bounded(from.Spec.MinMember, 0), Needs: from.Spec.MinResources,
		Over: from.Status.Phase == "Finished" || from.Status.Phase == "Failed",
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
		} `json:"spec"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	o.Group = &PodGroup{}
	if gang := from.Spec.SchedulingPolicy.Gang; gang != nil {
		o.Group.Min = bounded(gang.MinCount, 0)
	}
	return nil
}

func parseKAIPodGroup(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			MinMember *int64 `json:"minMember"`
			Queue     string `json:"queue"`
		} `json:"spec"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	o.Group = &PodGroup{Min: bounded(from.Spec.MinMember, 0), Queue: from.Spec.Queue}
	return nil
}
