package foreign

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trainingManagers are the values of managedBy of jobs whose pods are created in this cluster.
var trainingManagers = []string{"", "kubeflow.org/training-operator", "kubeflow.org/mpi-operator"}

// parseTrainingJob returns the reader of a job of Kubeflow's Training Operator (v1.9,
// pkg/apis/kubeflow.org/v1/common_types.go) or MPI Operator, whose replicas are in the field. A job is
// a gang: of schedulingPolicy's minAvailable, of an elastic job's minReplicas, else of all replicas.
func parseTrainingJob(field string) func(map[string]any, *Object) error {
	return func(object map[string]any, o *Object) error {
		type replicas struct {
			Replicas *int64                 `json:"replicas"`
			Template corev1.PodTemplateSpec `json:"template"`
		}
		var from struct {
			Spec struct {
				RunPolicy struct {
					Suspend          *bool  `json:"suspend"`
					ManagedBy        string `json:"managedBy"`
					SchedulingPolicy struct {
						MinAvailable  *int64 `json:"minAvailable"`
						Queue         string `json:"queue"`
						PriorityClass string `json:"priorityClass"`
					} `json:"schedulingPolicy"`
				} `json:"runPolicy"`
				ElasticPolicy *struct {
					MinReplicas *int64 `json:"minReplicas"`
				} `json:"elasticPolicy"`
			} `json:"spec"`
			Status struct {
				Conditions      []metav1.Condition `json:"conditions"`
				ReplicaStatuses map[string]struct {
					Succeeded *int64 `json:"succeeded"`
				} `json:"replicaStatuses"`
			} `json:"status"`
		}
		if err := decode(object, &from); err != nil {
			return err
		}
		specs := map[string]replicas{}
		if spec, ok := object["spec"].(map[string]any); ok {
			if of, ok := spec[field].(map[string]any); ok {
				if err := decode(of, &specs); err != nil {
					return err
				}
			}
		}
		policy := from.Spec.RunPolicy
		m := &Maker{
			Sets: 1, Min: bounded(policy.SchedulingPolicy.MinAvailable, 0), Queue: policy.SchedulingPolicy.Queue,
			PriorityClass: policy.SchedulingPolicy.PriorityClass,
			Inactive:      policy.Suspend != nil && *policy.Suspend || !slices.Contains(trainingManagers, policy.ManagedBy),
			Over:          isTrue(from.Status.Conditions, "Succeeded") || isTrue(from.Status.Conditions, "Failed"),
		}
		if q := o.Labels[KueueQueueLabel]; q != "" {
			m.Queue = q
		}
		others := 0
		for _, name := range slices.Sorted(maps.Keys(specs)) {
			r := Role{
				Name: strings.ToLower(name), Count: count(specs[name].Replicas), Done: bounded(from.Status.ReplicaStatuses[name].Succeeded, 0),
				Template: slim(specs[name].Template),
			}
			if r.Name != "worker" {
				others += r.Count
			}
			m.Roles = append(m.Roles, r)
		}
		if e := from.Spec.ElasticPolicy; e != nil && e.MinReplicas != nil && m.Min == 0 {
			m.Min = min(bounded(e.MinReplicas, 0)+others, maxCount)
		}
		o.Maker = m
		return nil
	}
}
