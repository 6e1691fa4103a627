package observe

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// perVersion caches what objects were read as, per resourceVersion: of thousands few change between
// reconciles. Cached values are shared by the reconciles; only the fields of a copy may be written
// to.
type perVersion[T any] struct {
	classes   string // device classes, which determine the meaning of extended resources
	known     map[types.UID]*version[T]
	reconcile int
}

type version[T any] struct {
	of        string // resourceVersion
	is        T
	reconcile int
}

// begin starts a reconcile. Entries of other device classes are dropped.
func (k *perVersion[T]) begin(c *Claims) {
	k.reconcile++
	if classes := c.version(); k.known == nil || classes != k.classes {
		k.classes, k.known = classes, map[types.UID]*version[T]{}
	}
}

// numbered reports whether an object can be cached: it has a UID and a resourceVersion.
func numbered(o metav1.Object) bool { return o.GetUID() != "" && o.GetResourceVersion() != "" }

// get returns the cached value of a numbered object, and reads it again if its resourceVersion has
// changed.
func (k *perVersion[T]) get(o metav1.Object, read func(*T)) *T {
	had := k.known[o.GetUID()]
	if had == nil {
		had = &version[T]{}
		k.known[o.GetUID()] = had
	}
	if v := o.GetResourceVersion(); had.of != v {
		had.of = v
		read(&had.is)
	}
	had.reconcile = k.reconcile
	return &had.is
}

// end drops the entries that were not used in this reconcile.
func (k *perVersion[T]) end() {
	maps.DeleteFunc(k.known, func(_ types.UID, v *version[T]) bool { return v.reconcile != k.reconcile })
}
