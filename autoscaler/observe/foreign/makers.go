package foreign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KueueQueueLabel on an object or a pod names its LocalQueue.
const KueueQueueLabel = "kueue.x-k8s.io/queue-name"

// jobSetController is the default managedBy of a JobSet.
const jobSetController = "jobset.sigs.k8s.io/jobset-controller"

func isTrue(conditions []metav1.Condition, kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool { return meta.IsStatusConditionTrue(conditions, kind) })
}

func parseJobSet(f fields, o *Object) {
	o.Maker = &Maker{
		Sets: 1, Queue: o.Labels[KueueQueueLabel],
		// Another manager, such as MultiKueue, creates the pods in another cluster.
		Inactive: f.is("spec.suspend") || cmp.Or(f.text("spec.managedBy"), jobSetController) != jobSetController,
		Over:     f.text("status.terminalState") != "" || isTrue(f.conditions(), "Completed", "Failed"),
	}
	succeeded, all := map[string]int{}, map[string]int{}
	for _, s := range f.list("status.replicatedJobsStatus") {
		succeeded[s.text("name")] = s.count("succeeded", 0)
	}
	jobs := f.list("spec.replicatedJobs")
	for _, job := range jobs {
		all[job.text("name")] = job.count("replicas", 1)
	}
	for _, job := range jobs {
		if slices.ContainsFunc(job.list("dependsOn"), func(on fields) bool {
			return on.text("status") == "Complete" && succeeded[on.text("name")] < all[on.text("name")]
		}) {
			continue // it starts after the others have ended
		}
		name := job.text("name")
		pods := job.count("template.spec.parallelism", 1) // at once
		pods = min(pods, job.count("template.spec.completions", pods))
		replicas, done := all[name], succeeded[name]
		role := Role{Name: name, Count: min(replicas*pods, maxCount), Done: min(done*pods, maxCount), Template: job.template("template.spec.template")}
		key := jobSetPlace(f.names("metadata.annotations"), job.names("template.metadata.annotations"))
		if key == "" || len(o.Maker.Roles)+replicas > maxPlaces {
			o.Maker.Roles = append(o.Maker.Roles, role)
			continue
		}
		for i := range replicas { // each of its Jobs has a place of its own
			one := role
			one.Name, one.Count, one.Done = name+"-"+strconv.Itoa(i), pods, 0
			if i < done {
				one.Done = one.Count
			}
			one.Template = Exclusive(role.Template, key, jobSetJobKey, o.Namespace, o.Name+"-"+one.Name)
			o.Maker.Roles = append(o.Maker.Roles, one)
		}
	}
}

func parseLeaderWorkerSet(f fields, o *Object) {
	const of = "spec.leaderWorkerTemplate."
	size, leader := f.count(of+"size", 1), "leaderTemplate"
	if f.value(of+leader) == nil {
		leader = "workerTemplate"
	}
	o.Maker = &Maker{
		Sets: f.count("spec.replicas", 1), Queue: o.Labels[KueueQueueLabel], Over: o.DeletionTimestamp != nil,
		Exclusive: f.names("metadata.annotations")[lwsExclusive],
		Roles: []Role{
			{Name: "leader", Count: min(size, 1), Template: f.template(of + leader)},
			{Name: "worker", Count: max(size-1, 0), Template: f.template(of + "workerTemplate")},
		},
	}
}

// ended are phases in which a Volcano Job creates no pods any more.
var ended = []string{"Completing", "Completed", "Failed", "Aborting", "Aborted", "Terminating", "Terminated"}

func parseVolcanoJob(f fields, o *Object) {
	o.Maker = &Maker{
		Sets: 1, Min: f.count("spec.minAvailable", 0), Queue: f.text("spec.queue"),
		Over: slices.Contains(ended, f.text("status.state.phase")), PriorityClass: f.text("spec.priorityClassName"),
	}
	for _, task := range f.list("spec.tasks") {
		o.Maker.Roles = append(o.Maker.Roles, Role{Name: task.text("name"), Count: task.count("replicas", 1), Template: task.template("template")})
	}
}

// parseScaled reads a Deployment or a StatefulSet.
func parseScaled(f fields, o *Object) {
	o.Maker = &Maker{Sets: 1, Over: o.DeletionTimestamp != nil, Roles: []Role{{Count: f.count("spec.replicas", 1), Template: f.template("spec.template")}}}
}

// trainingManagers are the values of managedBy of jobs whose pods are created in this cluster.
var trainingManagers = []string{"", "kubeflow.org/training-operator", "kubeflow.org/mpi-operator"}

// trainingJob returns the reader of a job of Kubeflow's Training Operator (v1.9,
// pkg/apis/kubeflow.org/v1/common_types.go) or MPI Operator with its replicas in field. A job is a gang. Its minimum is
// schedulingPolicy's minAvailable, for an elastic job its minReplicas, else all replicas.
func trainingJob(field string) func(fields, *Object) {
	return func(f fields, o *Object) {
		const policy = "spec.runPolicy."
		m := &Maker{
			Sets: 1, Min: f.count(policy+"schedulingPolicy.minAvailable", 0),
			Queue:         cmp.Or(o.Labels[KueueQueueLabel], f.text(policy+"schedulingPolicy.queue")),
			PriorityClass: f.text(policy + "schedulingPolicy.priorityClass"),
			Inactive:      f.is(policy+"suspend") || !slices.Contains(trainingManagers, f.text(policy+"managedBy")),
			Over:          isTrue(f.conditions(), "Succeeded", "Failed"),
		}
		specs, statuses := f.entries("spec."+field), f.entries("status.replicaStatuses")
		others := 0
		for _, name := range slices.Sorted(maps.Keys(specs)) {
			r := Role{Name: strings.ToLower(name), Count: specs[name].count("replicas", 1), Template: specs[name].template("template")}
			if status, ok := statuses[name]; ok {
				r.Done = status.count("succeeded", 0)
			}
			if r.Name != "worker" {
				others += r.Count
			}
			m.Roles = append(m.Roles, r)
		}
		if elastic := "spec.elasticPolicy.minReplicas"; m.Min == 0 && f.number(elastic) != nil {
			m.Min = min(f.count(elastic, 0)+others, maxCount)
		}
		o.Maker = m
	}
}

// podSetUpdate is what an admission check of Kueue's adds to the pods of a set.
type podSetUpdate struct {
	Name         string              `json:"name"`
	Labels       map[string]string   `json:"labels"`
	Annotations  map[string]string   `json:"annotations"`
	NodeSelector map[string]string   `json:"nodeSelector"`
	Tolerations  []corev1.Toleration `json:"tolerations"`
}

// parseKueueWorkload reads a Workload, of v1beta1 or v1beta2. It is demand once its quota is reserved, even while an
// admission check is pending, possibly for these nodes. What MultiKueue dispatches to another cluster is demand there.
// A Workload that another Workload owns is its variant for a flavor. Once the variant is admitted, so is its parent,
// and the pods are the parent's (0.19, pkg/controller/concurrentadmission).
func parseKueueWorkload(f fields, o *Object) {
	conditions := f.conditions()
	parent := metav1.GetControllerOfNoCopy(o)
	m := &Maker{
		Sets: 1, Queue: f.text("spec.queueName"), ClusterQueue: f.text("status.admission.clusterQueue"),
		Over: isTrue(conditions, "Finished") || isTrue(conditions, "Admitted") && parent != nil && parent.Kind == "Workload", Started: isTrue(conditions, "Admitted"),
		Inactive: f.isNot("spec.active") || !isTrue(conditions, "QuotaReserved") || isTrue(conditions, "Evicted") ||
			f.text("status.clusterName") != "" || len(read[[]any](f, "status.nominatedClusterNames")) > 0,
	}
	o.Maker = m
	if c := meta.FindStatusCondition(conditions, "QuotaReserved"); c != nil {
		m.Admitted = c.LastTransitionTime
	}
	// v1beta1 has the class's name and its source, v1beta2 a reference. A WorkloadPriorityClass only orders
	// the queue: pods have the class of their template.
	class := cmp.Or(f.text("spec.priorityClassRef.name"), f.text("spec.priorityClassName"))
	source := cmp.Or(f.text("spec.priorityClassRef.group"), f.text("spec.priorityClassSource"))
	ofPods := class != "" && source != "kueue.x-k8s.io/workloadpriorityclass" && source != "kueue.x-k8s.io"
	sets, partial := f.list("spec.podSets"), map[string]bool{} // whether it may be admitted with fewer pods
	for _, set := range sets {
		partial[set.text("name")] = set.value("minCount") != nil
		m.Roles = append(m.Roles, Role{
			Name: set.text("name"), Count: set.count("count", 1), Template: set.template("template"),
			// From the annotations kueue.x-k8s.io/podset-required-topology and podset-group-name.
			Near: Near{Label: set.text("topologyRequest.required")}, Together: set.text("topologyRequest.podSetGroupName"),
			Slices: kueueSlices(set),
		})
	}
	if ofPods && !slices.ContainsFunc(m.Roles, func(r Role) bool { return r.Template.Spec.PriorityClassName != "" }) {
		m.PriorityClass, m.Priority = class, into[*int32](f, "spec.priority") // the job's; else that of the first set with one
	}
	role := func(name string) *Role {
		if i := slices.IndexFunc(m.Roles, func(r Role) bool { return r.Name == name }); i >= 0 {
			return &m.Roles[i]
		}
		return &Role{}
	}
	for _, set := range f.list("status.reclaimablePods") {
		role(set.text("name")).Done = set.count("count", 0)
	}
	for _, set := range f.list("status.admission.podSetAssignments") {
		r := role(set.text("name"))
		r.Flavors = slices.Compact(slices.Sorted(maps.Values(set.names("flavors"))))
		// The assignment does not count pods that ended before the quota was reserved (0.15, pkg/workload/workload.go).
		switch count := set.count("count", r.Count); {
		case !partial[r.Name]:
			r.Done = max(r.Done, r.Count-count)
		case m.Started:
			r.Count = count
		default:
			r.Count, r.Done = count, max(r.Done-(r.Count-count), 0)
		}
	}
	for _, check := range f.list("status.admissionChecks") {
		m.Checks = append(m.Checks, check.text("name"))
		for _, u := range into[[]podSetUpdate](check, "podSetUpdates") {
			if check.text("state") == "Ready" {
				u.addTo(&role(u.Name).Template)
			}
		}
	}
	for _, set := range sets { // with a minimum count, fewer pods are useful too
		all := role(set.text("name")).Count
		m.Min += min(set.count("minCount", all), all)
	}
}

// kueueSlices reads the annotations podset-slice-required-topology and podset-slice-size, or their layers.
func kueueSlices(set fields) (out []Slice) {
	add := func(label string, size int) {
		if label != "" && size > 1 { // a slice of one pod may be anywhere
			out = append(out, Slice{Near{Label: label}, size})
		}
	}
	add(set.text("topologyRequest.podSetSliceRequiredTopology"), set.count("topologyRequest.podSetSliceSize", 0))
	for _, layer := range set.list("topologyRequest.podsetSliceRequiredTopologyConstraints") {
		add(layer.text("topology"), layer.count("size", 0))
	}
	return out
}

func (u *podSetUpdate) addTo(t *corev1.PodTemplateSpec) {
	t.Labels = with(t.Labels, u.Labels)
	t.Annotations = with(t.Annotations, short(u.Annotations, ""))
	t.Spec.NodeSelector = with(t.Spec.NodeSelector, u.NodeSelector)
	t.Spec.Tolerations = append(slices.Clip(t.Spec.Tolerations), u.Tolerations...)
}

// with returns a map and the entries that more adds to it; neither is written to.
func with(a, more map[string]string) map[string]string {
	if len(more) == 0 {
		return a
	}
	out := maps.Clone(more)
	maps.Copy(out, a)
	return out
}

// Classes of ProvisioningRequests that can be served (cluster-autoscaler 1.34, apis/provisioningrequest/v1).
const (
	CheckCapacity = "check-capacity.autoscaling.x-k8s.io"
	AtomicScaleUp = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
)

// Conditions of a ProvisioningRequest.
const (
	RequestAccepted    = "Accepted"
	RequestProvisioned = "Provisioned"
	RequestFailed      = "Failed"
	RequestExpired     = "BookingExpired"
)

// Request is what a ProvisioningRequest states besides its pods, which are in its Maker.
type Request struct {
	Class string
	// Templates are the names of the PodTemplates of the Maker's roles.
	Templates []string
	// Missing is the first of Templates that does not exist; set by Resolve.
	Missing string
	// ValidFor is how long after its creation the request fails if it is not provisioned; 0 if not set.
	ValidFor time.Duration
	// NoRetry: a check that finds no capacity is the last.
	NoRetry    bool
	Conditions []metav1.Condition
}

// Settled reports whether a request is provisioned or failed: only the end of its booking is left.
func (r *Request) Settled() bool { return isTrue(r.Conditions, RequestProvisioned, RequestFailed) }

// parseProvisioningRequest reads a ProvisioningRequest: pods for which capacity is requested before they
// exist. They are demand until its booking has expired.
func parseProvisioningRequest(f fields, o *Object) {
	r := &Request{Class: f.text("spec.provisioningClassName"), NoRetry: f.text("spec.parameters.noRetry") == "true", Conditions: f.conditions()}
	if text := f.text("spec.parameters.ValidUntilSeconds"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			f.fail("spec.parameters.ValidUntilSeconds", fmt.Errorf("%q is not a number of seconds", text))
		}
		r.ValidFor = time.Duration(seconds) * time.Second
	}
	m := &Maker{
		Sets: 1, Over: isTrue(r.Conditions, RequestFailed, RequestExpired),
		Inactive: r.Class != AtomicScaleUp, // a check adds no node
	}
	if c := meta.FindStatusCondition(r.Conditions, RequestAccepted); c != nil {
		m.Admitted = c.LastTransitionTime
	}
	for i, set := range f.list("spec.podSets") {
		r.Templates = append(r.Templates, set.text("podTemplateRef.name"))
		m.Roles = append(m.Roles, Role{Name: strconv.Itoa(i), Count: set.count("count", 1)})
	}
	o.Request, o.Maker = r, m
}

// MadeFor returns the Workload that Kueue made a ProvisioningRequest for, empty for none.
func MadeFor(o *Object) string {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil && o.Request != nil && ref.Kind == "Workload" {
		return ref.Name
	}
	return ""
}

// Resolve returns the objects with PodTemplates filled into the roles of ProvisioningRequests of these classes, and
// without requests of other classes. A request with a missing PodTemplate is no demand.
func (all Objects) Resolve(classes []string) Objects {
	requests, ok := all[ProvisioningRequest]
	if !ok {
		return all
	}
	out := maps.Clone(all)
	out[ProvisioningRequest] = map[Key]*Object{}
	for _, o := range requests {
		if o.Request == nil || !slices.Contains(classes, o.Request.Class) {
			continue
		}
		now, maker, request := *o, *o.Maker, *o.Request
		now.Maker, now.Request = &maker, &request
		maker.Roles = slices.Clone(maker.Roles)
		maker.Inactive = maker.Inactive || MadeFor(o) != "" // the Workload is the demand
		for i := 0; i < len(maker.Roles) && MadeFor(o) == ""; i++ {
			t := all.Get(PodTemplate.Of(o.Namespace, request.Templates[i]))
			if t == nil || t.Template == nil {
				maker.Inactive, request.Missing = true, request.Templates[i]
				break
			}
			maker.Roles[i].Template = *t.Template
		}
		out.Add(&now)
	}
	return out
}
