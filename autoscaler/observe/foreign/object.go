package foreign

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is what is kept of one object. Of its metadata that is the names, the
// UID, the age, the labels and the owners. Exactly one of the last four is set, none
// where Err is.
type Object struct {
	metav1.ObjectMeta
	Kind Kind
	// Err says why the object cannot be read, with the field.
	Err    error
	Group  *PodGroup
	Maker  *Maker
	Queue  *Queue
	Flavor *Flavor
}

// PodGroup says how many pods are of use only together.
type PodGroup struct {
	// Min is how many, 0 for a group of which every pod is of use by itself.
	Min int
	// Needs is what Min pods want together, nil where it is not said.
	Needs corev1.ResourceList
	Queue string
	Over  bool // all its pods have ended
}

// Maker makes pods from templates.
type Maker struct {
	Roles []Role
	// Sets is how many times the roles are made, each time a gang; 1 but for a
	// LeaderWorkerSet.
	Sets int
	// Min pods are of use together, 0 for all of them.
	Min int
	// Held: it makes no pods here, because it is suspended, its queue has not admitted
	// it, or it runs in another cluster. It is no demand then.
	Held bool
	// Admitted is when its queue reserved quota, zero where there is no queue.
	Admitted metav1.Time
	Over     bool
	// Started: its queue has let it go, so that its pods are made (Kueue).
	Started bool
	// Queue it is to go through, in its own system's words; ClusterQueue that has
	// admitted it (Kueue).
	Queue, ClusterQueue string
	// Priority goes before PriorityClass; nil for not said.
	Priority      *int32
	PriorityClass string
}

// Role is pods of one template.
type Role struct {
	Name string
	// Count of pods in a set; Done of them have ended well and are not made again.
	Count, Done int
	Template    corev1.PodTemplateSpec
	// Flavors that its queue has assigned, by name (Kueue).
	Flavors []string
}

// Flavor is what Kueue adds to the pods that it assigns a ResourceFlavor.
type Flavor struct {
	NodeLabels  map[string]string
	Tolerations []corev1.Toleration
}

// Queue is a place in a tree of quotas.
type Queue struct {
	Parent string
	// ClusterQueue that a LocalQueue leads to; nothing else is set for one.
	ClusterQueue string
	Quotas       []Quota
	// Whole says that the quota includes the children's, rather than being beside
	// them.
	Whole bool
}

// Quota of one resource. A nil quantity is not said.
type Quota struct {
	Resource                        string
	Guaranteed, Limit, Borrow, Lend *Amount
}

// maxCount bounds every number of pods that an object is believed to say.
const maxCount = 10_000

// Parse keeps of an object of a kind what is asked of it. It never fails: what
// cannot be read is Err.
func Parse(k Kind, u *unstructured.Unstructured) *Object {
	o := &Object{Kind: k, ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), CreationTimestamp: u.GetCreationTimestamp(),
		ResourceVersion: u.GetResourceVersion(), Generation: u.GetGeneration(), Labels: u.GetLabels(), OwnerReferences: u.GetOwnerReferences(),
		DeletionTimestamp: u.GetDeletionTimestamp(), Annotations: ours(u.GetAnnotations()),
	}}
	err := kinds[k].parse(u.Object, o)
	if err == nil {
		err = o.sane()
	}
	if err != nil {
		o.Group, o.Maker, o.Queue, o.Flavor = nil, nil, nil, nil
		o.Err = fmt.Errorf("%s %s: %w", k, o.key(), err)
	}
	return o
}

// ours are the annotations that are meant for us.
func ours(all map[string]string) map[string]string {
	var out map[string]string
	for key, value := range all {
		if strings.HasPrefix(key, "gpuscale.io/") && len(value) <= maxAnnotation {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}

func (o *Object) key() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// decode reads an object's fields into a struct with JSON names. A field that is
// of another type than it should be is an error that names it, which only the slower
// way of reading can.
func decode(object map[string]any, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, into); err == nil {
		return nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// count is a number of pods, 1 where it is not said, bounded. It is read as 64 bits:
// a custom resource may hold more than the 32 that its owner means, and what is cut
// off would make another number of it.
func count(n *int64) int { return bounded(n, 1) }

func bounded(n *int64, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return int(min(max(*n, 0), maxCount))
}

func isTrue(conditions []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(conditions, kind)
}
