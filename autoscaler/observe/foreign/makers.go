package foreign

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KueueQueueLabel on an object or a pod names its LocalQueue.
const KueueQueueLabel = "kueue.x-k8s.io/queue-name"

// jobSetController is the default managedBy of a JobSet.
const jobSetController = "jobset.sigs.k8s.io/jobset-controller"

// jobTemplate has the fields that are read of a Job's template.
type jobTemplate struct {
	Metadata annotated `json:"metadata"`
	Spec     struct {
		Parallelism *int64                 `json:"parallelism"`
		Completions *int64                 `json:"completions"`
		Template    corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

func parseJobSet(object map[string]any, o *Object) error {
	var from struct {
		Metadata annotated `json:"metadata"`
		Spec     struct {
			Suspend        *bool  `json:"suspend"`
			ManagedBy      string `json:"managedBy"`
			ReplicatedJobs []struct {
				Name      string      `json:"name"`
				Replicas  *int64      `json:"replicas"`
				Template  jobTemplate `json:"template"`
				DependsOn []struct {
					Name   string `json:"name"`
					Status string `json:"status"`
				} `json:"dependsOn"`
			} `json:"replicatedJobs"`
		} `json:"spec"`
		Status struct {
			TerminalState        string             `json:"terminalState"`
			Conditions           []metav1.Condition `json:"conditions"`
			ReplicatedJobsStatus []struct {
				Name      string `json:"name"`
				Succeeded *int64 `json:"succeeded"`
			} `json:"replicatedJobsStatus"`
		} `json:"status"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	m := &Maker{
		Sets: 1, Queue: o.Labels[KueueQueueLabel],
		// Another manager, such as MultiKueue, creates the pods in another cluster.
		Inactive: from.Spec.Suspend != nil && *from.Spec.Suspend || from.Spec.ManagedBy != "" && from.Spec.ManagedBy != jobSetController,
		Over:     from.Status.TerminalState != "" || isTrue(from.Status.Conditions, "Completed") || isTrue(from.Status.Conditions, "Failed"),
	}
	succeeded, all := map[string]int{}, map[string]int{}
	for _, s := range from.Status.ReplicatedJobsStatus {
		succeeded[s.Name] = bounded(s.Succeeded, 0)
	}
	for _, job := range from.Spec.ReplicatedJobs {
		all[job.Name] = count(job.Replicas)
	}
	for _, job := range from.Spec.ReplicatedJobs {
		pods, done, later := job.Template.atOnce(), succeeded[job.Name], false
		for _, on := range job.DependsOn {
			later = later || on.Status == "Complete" && succeeded[on.Name] < all[on.Name]
		}
		if later { // these start after the others have ended
			continue
		}
		role := Role{
			Name: job.Name, Count: min(count(job.Replicas)*pods, maxCount), Done: min(done*pods, maxCount),
			Template: slim(job.Template.Spec.Template),
		}
		key := jobSetPlace(from.Metadata, job.Template.Metadata)
		if key == "" || count(job.Replicas) > maxPlaces {
			m.Roles = append(m.Roles, role)
			continue
		}
		for i := range count(job.Replicas) { // each of its Jobs has a place of its own
			one := role
			one.Name, one.Count, one.Done = job.Name+"-"+strconv.Itoa(i), min(pods, maxCount), 0
			if i < done {
				one.Done = one.Count
			}
			one.Template = Exclusive(role.Template, key, jobSetJobKey, o.Namespace, o.Name+"-"+one.Name)
			m.Roles = append(m.Roles, one)
		}
	}
	o.Maker = m
	return nil
}

// atOnce returns how many pods a Job runs in parallel.
func (j *jobTemplate) atOnce() int {
	n := count(j.Spec.Parallelism)
	return min(n, bounded(j.Spec.Completions, n))
}

func parseLeaderWorkerSet(object map[string]any, o *Object) error {
	var from struct {
		Metadata annotated `json:"metadata"`
		Spec     struct {
			Replicas             *int64 `json:"replicas"`
			LeaderWorkerTemplate struct {
				Size           *int64                  `json:"size"`
				LeaderTemplate *corev1.PodTemplateSpec `json:"leaderTemplate"`
				WorkerTemplate corev1.PodTemplateSpec  `json:"workerTemplate"`
			} `json:"leaderWorkerTemplate"`
		} `json:"spec"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	t := from.Spec.LeaderWorkerTemplate
	leader := t.WorkerTemplate
	if t.LeaderTemplate != nil {
		leader = *t.LeaderTemplate
	}
	size := count(t.Size)
	o.Maker = &Maker{
		Sets: count(from.Spec.Replicas), Queue: o.Labels[KueueQueueLabel], Over: o.DeletionTimestamp != nil,
		Exclusive: from.Metadata.Annotations[lwsExclusive],
		Roles:     []Role{{Name: "leader", Count: min(size, 1), Template: slim(leader)}, {Name: "worker", Count: max(size-1, 0), Template: slim(t.WorkerTemplate)}},
	}
	return nil
}

// ended are phases in which a Volcano Job creates no pods any more.
var ended = map[string]bool{
	"Completing": true, "Completed": true, "Failed": true, "Aborting": true, "Aborted": true, "Terminating": true, "Terminated": true,
}

func parseVolcanoJob(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			MinAvailable *int64 `json:"minAvailable"`
			Queue        string `json:"queue"`
			Tasks        []struct {
				Name     string                 `json:"name"`
				Replicas *int64                 `json:"replicas"`
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"tasks"`
			PriorityClassName string `json:"priorityClassName"`
		} `json:"spec"`
		Status struct {
			State struct {
				Phase string `json:"phase"`
			} `json:"state"`
		} `json:"status"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	m := &Maker{
		Sets: 1, Min: bounded(from.Spec.MinAvailable, 0), Queue: from.Spec.Queue,
		Over: ended[from.Status.State.Phase], PriorityClass: from.Spec.PriorityClassName,
	}
	for _, task := range from.Spec.Tasks {
		m.Roles = append(m.Roles, Role{Name: task.Name, Count: count(task.Replicas), Template: slim(task.Template)})
	}
	o.Maker = m
	return nil
}

// parseScaled reads a Deployment or a StatefulSet.
func parseScaled(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			Replicas *int64                 `json:"replicas"`
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	o.Maker = &Maker{Sets: 1, Over: o.DeletionTimestamp != nil, Roles: []Role{{Count: count(from.Spec.Replicas), Template: slim(from.Spec.Template)}}}
	return nil
}
