package foreign

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is what is kept of one object. Of its metadata these are names, UID, age, labels and
// owners. Exactly one of the last fields is set, none with an Err; a Request has a Maker too.
type Object struct {
	metav1.ObjectMeta
	Kind Kind
	// Err is why the object cannot be read; it names the field.
	Err    error
	Group  *PodGroup
	Maker  *Maker
	Queue  *Queue
	Flavor *Flavor
	// Request of a ProvisioningRequest, Template of a PodTemplate.
	Request  *Request
	Template *corev1.PodTemplateSpec
}

// PodGroup defines how many pods are useful only together.
type PodGroup struct {
	// Min is the minimum, 0 for a group of which every pod is useful by itself.
	Min int
	// Needs are the resources of Min pods together, nil if not set.
	Needs corev1.ResourceList
	Queue string
	Over  bool // all its pods have ended
	// Near is a label of nodes: all pods of the group are on nodes with the same value of it. Empty for
	// anywhere.
	Near string
}

// Maker creates pods from templates.
type Maker struct {
	Roles []Role
	// Sets is how often the roles are created, each time as a gang; 1 except for a LeaderWorkerSet.
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
	// Exclusive is a label of nodes: each set has a value of it to itself (LeaderWorkerSet).
	Exclusive string
	// Queue of the object, in its own system's words; ClusterQueue that has admitted it (Kueue).
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
	// Near is as a PodGroup's.
	Near string
}

// Flavor is what Kueue adds to the pods that it assigns a ResourceFlavor.
type Flavor struct {
	NodeLabels  map[string]string
	Tolerations []corev1.Toleration
}

// Queue is a node in a tree of quotas.
type Queue struct {
	Parent string
	// ClusterQueue that a LocalQueue points to; no other field of a LocalQueue is set.
	ClusterQueue string
	Quotas       []Quota
	// Whole: the quota includes the children's, rather than adding to them.
	Whole bool
}

// Quota of one resource. A nil quantity is not set.
type Quota struct {
	Resource                        string
	Guaranteed, Limit, Borrow, Lend *Amount
}

// Amount of a resource: a number, or unbounded.
type Amount struct {
	Number    float64
	Unlimited bool
}

// Parse keeps the fields of an object that are read. It never fails: Err has the problem.
func Parse(k Kind, u *unstructured.Unstructured) *Object {
	o := &Object{Kind: k, ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), CreationTimestamp: u.GetCreationTimestamp(),
		ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(), Labels: u.GetLabels(), OwnerReferences: u.GetOwnerReferences(),
		DeletionTimestamp: u.GetDeletionTimestamp(), Annotations: short(u.GetAnnotations(), "gpuscale.io/"),
	}}
	var err error
	kinds[k].parse(fields{of: u.Object, err: &err}, o)
	if err == nil {
		err = o.sane()
	}
	if err != nil {
		o.Group, o.Maker, o.Queue, o.Flavor, o.Request, o.Template = nil, nil, nil, nil, nil, nil
		o.Err = fmt.Errorf("%s %s: %w", k, o.key(), err)
	}
	return o
}

func (o *Object) key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}
