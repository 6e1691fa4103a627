package observe

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/plan"
)

// converted caches converted pods.
type converted struct{ perVersion[plan.Pod] }

// of returns c.ConvertPod(p). A pod with resource claims is not cached, since its demand changes
// without the pod; nor is one without a resourceVersion.
func (k *converted) of(c *Claims, p *corev1.Pod) plan.Pod {
	if len(p.Spec.ResourceClaims) > 0 || !numbered(p) {
		return c.ConvertPod(p)
	}
	return *k.get(p, func(pod *plan.Pod) { *pod = c.ConvertPod(p) })
}

// version identifies a set of device classes.
func (c *Claims) version() string {
	if c == nil || len(c.classes) == 0 {
		return ""
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.classes)) {
		class := c.classes[name]
		b.WriteString(name + "\x00" + string(class.UID) + "\x00" + class.ResourceVersion + "\x00")
	}
	return b.String()
}
