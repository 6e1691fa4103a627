package foreign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Kind is one kind of object that is read: its resource and group.
type Kind string

// The kinds.
const (
	VolcanoPodGroup   Kind = "podgroups.scheduling.volcano.sh"
	PluginsPodGroup   Kind = "podgroups.scheduling.x-k8s.io"
	BuiltInPodGroup   Kind = "podgroups.scheduling.k8s.io"
	KAIPodGroup       Kind = "podgroups.scheduling.run.ai"
	KueueWorkload     Kind = "workloads.kueue.x-k8s.io"
	VolcanoJob        Kind = "jobs.batch.volcano.sh"
	JobSet            Kind = "jobsets.jobset.x-k8s.io"
	LeaderWorkerSet   Kind = "leaderworkersets.leaderworkerset.x-k8s.io"
	PyTorchJob        Kind = "pytorchjobs.kubeflow.org"
	TFJob             Kind = "tfjobs.kubeflow.org"
	MPIJob            Kind = "mpijobs.kubeflow.org"
	XGBoostJob        Kind = "xgboostjobs.kubeflow.org"
	PaddleJob         Kind = "paddlejobs.kubeflow.org"
	JAXJob            Kind = "jaxjobs.kubeflow.org"
	Deployment        Kind = "deployments.apps"
	StatefulSet       Kind = "statefulsets.apps"
	DaemonSet         Kind = "daemonsets.apps"
	KueueClusterQueue Kind = "clusterqueues.kueue.x-k8s.io"
	KueueCohort       Kind = "cohorts.kueue.x-k8s.io"
	KueueLocalQueue   Kind = "localqueues.kueue.x-k8s.io"
	KueueFlavor       Kind = "resourceflavors.kueue.x-k8s.io"
	KueueCheck        Kind = "admissionchecks.kueue.x-k8s.io"
	VolcanoQueue      Kind = "queues.scheduling.volcano.sh"
	VolcanoHyperNode  Kind = "hypernodes.topology.volcano.sh"
	KAIQueue          Kind = "queues.scheduling.run.ai"
	KAITopology       Kind = "topologies.kai.scheduler"
	DRASlice          Kind = "resourceslices.resource.k8s.io"
	DRATaint          Kind = "devicetaintrules.resource.k8s.io"
	RuntimeClass      Kind = "runtimeclasses.node.k8s.io"
	NodeClaim         Kind = "nodeclaims.karpenter.sh"

	ProvisioningRequest Kind = "provisioningrequests.autoscaling.x-k8s.io"
	PodTemplate         Kind = "podtemplates"
)

// kind is how objects of a Kind are found and read.
type kind struct {
	versions []string // that are supported, the preferred one first
	parse    func(fields, *Object)
	owner    string // of pods, as displayed; empty for none
}

// Key identifies an object.
type Key struct {
	Kind
	Namespace, Name string
}

// Of is the key of an object of this kind.
func (k Kind) Of(namespace, name string) Key { return Key{k, namespace, name} }

// Key of the object.
func (o *Object) Key() Key { return o.Kind.Of(o.Namespace, o.Name) }

// Objects are the objects of each kind. They are shared and must not be written to. A kind that is absent
// has none.
type Objects map[Kind]map[Key]*Object

// Add adds an object.
func (all Objects) Add(o *Object) {
	if all[o.Kind] == nil {
		all[o.Kind] = map[Key]*Object{}
	}
	all[o.Kind][o.Key()] = o
}

// Get returns the object of a key, nil for none.
func (all Objects) Get(of Key) *Object { return all[of.Kind][of] }

// Group returns the PodGroup of a key, nil for none that can be read.
func (all Objects) Group(of Key) *Object {
	if o := all.Get(of); o != nil && o.Group != nil {
		return o
	}
	return nil
}

// Maker returns the maker of a key, nil for none that can be read.
func (all Objects) Maker(of Key) *Object {
	if o := all.Get(of); o != nil && o.Maker != nil {
		return o
	}
	return nil
}

// Sorted returns the objects of a kind in the order of their names.
func (all Objects) Sorted(k Kind) []*Object {
	return slices.SortedFunc(maps.Values(all[k]), func(a, b *Object) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// Owner is the kind of a pod's owner, as displayed.
func (k Kind) Owner() string { return kinds[k].owner }

// Scalable are the kinds that an HPA may scale, or a forecast be for. Their own spec is not their demand: the
// HPA's status is.
var Scalable = map[string]Kind{"Deployment": Deployment, "StatefulSet": StatefulSet}

// kinds are all supported kinds.
var kinds = map[Kind]kind{
	VolcanoPodGroup: {[]string{"v1beta1"}, parsePodGroup, "PodGroup"},
	PluginsPodGroup: {[]string{"v1alpha1"}, parsePodGroup, "PodGroup"},
	BuiltInPodGroup: {[]string{"v1", "v1beta1", "v1alpha3", "v1alpha2"}, parseBuiltInPodGroup, "PodGroup"},
	KAIPodGroup:     {[]string{"v2alpha2"}, parseKAIPodGroup, "PodGroup"},
	KueueWorkload:   {[]string{"v1beta2", "v1beta1"}, parseKueueWorkload, "Workload"},
	VolcanoJob:      {[]string{"v1alpha1"}, parseVolcanoJob, "Job"},
	JobSet:          {[]string{"v1", "v1alpha2"}, parseJobSet, "JobSet"},
	LeaderWorkerSet: {[]string{"v1"}, parseLeaderWorkerSet, "LeaderWorkerSet"},
	// Kubeflow's Training Operator. The TrainJobs of its Trainer are JobSets.
	PyTorchJob: {[]string{"v1"}, trainingJob("pytorchReplicaSpecs"), "PyTorchJob"},
	TFJob:      {[]string{"v1"}, trainingJob("tfReplicaSpecs"), "TFJob"},
	MPIJob:     {[]string{"v2beta1", "v1"}, trainingJob("mpiReplicaSpecs"), "MPIJob"},
	XGBoostJob: {[]string{"v1"}, trainingJob("xgbReplicaSpecs"), "XGBoostJob"},
	PaddleJob:  {[]string{"v1"}, trainingJob("paddleReplicaSpecs"), "PaddleJob"},
	JAXJob:     {[]string{"v1"}, trainingJob("jaxReplicaSpecs"), "JAXJob"},

	Deployment:  {[]string{"v1"}, parseScaled, "Deployment"},
	StatefulSet: {[]string{"v1"}, parseScaled, "StatefulSet"},
	DaemonSet:   {[]string{"v1"}, parseScaled, "DaemonSet"}, // a role of one pod for each node

	KueueClusterQueue: {[]string{"v1beta2", "v1beta1"}, parseKueueQueue, ""},
	KueueCohort:       {[]string{"v1beta2", "v1beta1", "v1alpha1"}, parseKueueQueue, ""},
	KueueLocalQueue:   {[]string{"v1beta2", "v1beta1"}, func(f fields, o *Object) { o.Queue = &Queue{ClusterQueue: f.text("spec.clusterQueue")} }, ""},
	KueueFlavor:       {[]string{"v1beta2", "v1beta1"}, parseFlavor, ""},
	KueueCheck:        {[]string{"v1beta2", "v1beta1"}, parseCheck, ""},
	VolcanoQueue:      {[]string{"v1beta1"}, parseVolcanoQueue, ""},
	VolcanoHyperNode:  {[]string{"v1alpha1"}, parseHyperNode, ""},
	KAIQueue:          {[]string{"v2"}, parseKAIQueue, ""},
	KAITopology:       {[]string{"v1alpha1"}, parseKAITopology, ""},
	DRASlice:          {[]string{"v1", "v1beta2"}, parseDRASlice, ""},
	DRATaint:          {[]string{"v1", "v1beta2"}, parseDRATaint, ""},
	RuntimeClass:      {[]string{"v1"}, parseRuntimeClass, ""},
	NodeClaim:         {[]string{"v1"}, parseNodeClaim, ""},

	ProvisioningRequest: {[]string{"v1", "v1beta1"}, parseProvisioningRequest, "ProvisioningRequest"},
	PodTemplate:         {[]string{"v1"}, func(f fields, o *Object) { o.Template = ptr.To(f.template("template")) }, ""},
}

// Object is what is kept of one object. Of its metadata these are names, UID, age, labels and owners. At most one of
// the fields after Err is set, none of them with an Err; a Request has a Maker too.
type Object struct {
	metav1.ObjectMeta
	Kind Kind
	// Err is why the object cannot be read; it names the field.
	Err    error
	Group  *PodGroup
	Maker  *Maker
	Queue  *Queue
	Flavor *Flavor
	// Levels of a KAI Topology: the labels of nodes, by alias.
	Levels map[string]string
	// HyperNode of Volcano. From it nodes get the labels that Near of Volcano's PodGroups names.
	HyperNode *HyperNode
	Devices   *Devices
	// Taint is that of devices that a DeviceTaintRule selects; nil for none.
	Taint *DeviceTaint
	// Remote: Workloads with this AdmissionCheck run in another cluster.
	Remote bool
	// Upcoming is the node that Karpenter makes for a NodeClaim; nil once it is initialized, where it will not come, and
	// where it has no devices.
	Upcoming *UpcomingNode
	// Request of a ProvisioningRequest, Template of a PodTemplate.
	Request  *Request
	Template *corev1.PodTemplateSpec
}

// PodGroup defines how many pods are useful only together.
type PodGroup struct {
	// Min is the minimum; 0 if every pod of the group is useful by itself.
	Min int
	// Needs are the resources of Min pods together, nil if not set.
	Needs corev1.ResourceList
	Queue string
	Over  bool // all its pods have ended
	// Held is why its scheduler starts none of its pods, whatever nodes there are; empty if it may start them (KAI).
	Held string
	// Near is the topology constraint of all its pods. Parts are those of a subgroup's pods, by its name: its own, and
	// those of the subgroups that it is nested in (KAI).
	Near  Near
	Parts map[string][]Part
	// Claims are the templates of its own resource claims, by the claim's name. A pod's claim of the same name and
	// template is the group's claim.
	Claims map[string]string
}

// Near is a topology constraint: pods are on nodes with the same value of Label; empty for anywhere. With a Topology,
// Label may be an alias that the Topology defines.
type Near struct{ Label, Topology string }

// Part is a subgroup with a topology constraint of its own.
type Part struct {
	Name string
	Near
}

// Maker creates pods from templates.
type Maker struct {
	Roles []Role
	// Sets is how often the roles are created; each set is a gang. It is 1 except for a LeaderWorkerSet.
	Sets int
	// Min pods are useful together, 0 for all of them.
	Min int
	// Inactive: it creates no pods here, because it is suspended, its queue has not admitted it, or
	// it runs in another cluster. It is no demand then.
	Inactive bool
	// Admitted is when its queue reserved quota, zero without a queue.
	Admitted metav1.Time
	Over     bool
	// Started: its queue has admitted it, so that its pods are created (Kueue).
	Started bool
	// Checks are the names of its admission checks (Kueue).
	Checks []string
	// Exclusive is a node label: each set has all nodes with one value of it to itself (LeaderWorkerSet).
	Exclusive string
	// Queue of the object, as its own system names it; ClusterQueue that has admitted it (Kueue).
	Queue, ClusterQueue string
	// Priority has precedence over PriorityClass; nil if not set.
	Priority      *int32
	PriorityClass string
}

// Role is the pods of one template.
type Role struct {
	Name string
	// Count of pods in a set; Done of them have succeeded and are not created again.
	Count, Done int
	Template    corev1.PodTemplateSpec
	// Flavors that its queue has assigned, by name (Kueue).
	Flavors []string
	// Near is the topology constraint of the pods. Roles with the same Together share theirs (Kueue).
	Near     Near
	Together string
	// Slices divide the pods, in order, into parts of Size pods with the same topology constraint (Kueue).
	Slices []Slice
}

// Slice is a topology constraint for each Size pods.
type Slice struct {
	Near
	Size int
}

// Flavor is what Kueue adds to the pods to which it assigns a ResourceFlavor, or the API server to those of a
// RuntimeClass.
type Flavor struct {
	NodeLabels  map[string]string
	Tolerations []corev1.Toleration
	Overhead    corev1.ResourceList
}

// AddTo adds a flavor to a pod. The pod's lists are not written to.
func (f *Flavor) AddTo(spec *corev1.PodSpec) {
	spec.NodeSelector = with(spec.NodeSelector, f.NodeLabels)
	spec.Tolerations = append(slices.Clip(spec.Tolerations), f.Tolerations...)
	if f.Overhead != nil {
		spec.Overhead = f.Overhead
	}
}

// Devices are those of a ResourceSlice.
type Devices struct {
	DeviceName
	Node string
	// Generation of the pool, and how many of its slices have it.
	Generation, Slices int64
	Each               []Device
	Product            string // a GPU's
	// Packed is the slice's encoded specification: decoded it is large.
	Packed []byte
}

// Slice returns the ResourceSlice, without its metadata.
func (d *Devices) Slice() (*resourcev1.ResourceSlice, error) {
	var out resourcev1.ResourceSlice
	if err := out.Spec.Unmarshal(d.Packed); err != nil {
		return nil, fmt.Errorf("unpacking a ResourceSlice: %w", err)
	}
	return &out, nil
}

// DeviceName is the name of a device. In a rule, only the parts that are set select devices.
type DeviceName struct{ Driver, Pool, Device string }

// DeviceTaint is a taint, and the devices that it is on.
type DeviceTaint struct {
	DeviceName
	resourcev1.DeviceTaint
}

// IsOn reports whether a device has the taint; without a Device, whether some of the pool may.
func (t *DeviceTaint) IsOn(d DeviceName) bool {
	return cmp.Or(t.Driver, d.Driver) == d.Driver && cmp.Or(t.Pool, d.Pool) == d.Pool && (t.Device == "" || t.Device == d.Device)
}

// Device of a ResourceSlice. Profile is a MIG device's.
type Device struct {
	Name, Type, Profile string
	// GPU is the UUID of the GPU that the device is, or is a part of; empty where the driver does not state it.
	GPU string
	// Claimed: the driver creates this MIG device when it is claimed, at the memory slice Start.
	Claimed bool
	Start   int
	// Tainted: a taint of its slice keeps pods away.
	Tainted bool
	// Parts is how many requests without a capacity the device serves at once; mostParts for any number.
	Parts int
}

// Queue is a node in a tree of quotas.
type Queue struct {
	Parent string
	// ClusterQueue that a LocalQueue points to; no other field of a LocalQueue is set.
	ClusterQueue string
	Quotas       []Quota
	// Whole: the quota includes those of the children; else it comes on top of them.
	Whole bool
	// Closed is why its scheduler starts no pod of the queue, empty if it may (Volcano).
	Closed string
}

// Quota of one resource. A nil amount is not set, an infinite one is no bound.
type Quota struct {
	Resource                        string
	Guaranteed, Limit, Borrow, Lend *float64
}
