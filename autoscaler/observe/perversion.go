package observe

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// perVersion keeps what objects were read as: of thousands few change from one round
// to the next. What is kept is shared by the rounds and not written to, but for the
// fields of the copy itself.
type perVersion[T any] struct {
	classes string // device classes, which extended resources may mean
	known   map[types.UID]*version[T]
	round   int
}

type version[T any] struct {
	of    string // resourceVersion
	is    T
	round int
}

// begin starts a round. What was read under other device classes is forgotten.
func (k *perVersion[T]) begin(c *Claims) {
	k.round++
	if classes := c.version(); k.known == nil || classes != k.classes {
		k.classes, k.known = classes, map[types.UID]*version[T]{}
	}
}

// numbered says whether an object can be kept: an API server has numbered it.
func numbered(o metav1.Object) bool { return o.GetUID() != "" && o.GetResourceVersion() != "" }

// get returns what is kept of a numbered object, read again if the object is not the
// one that was read before.
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
	had.round = k.round
	return &had.is
}

// end forgets what was not asked for in this round.
func (k *perVersion[T]) end() {
	maps.DeleteFunc(k.known, func(_ types.UID, v *version[T]) bool { return v.round != k.round })
}
