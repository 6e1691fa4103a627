package observe

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/plan"
)

// converted keeps what pods were turned into: of thousands few change from one round
// to the next. What is kept is shared by the rounds and not written to, but for the
// fields of the copy itself.
type converted struct {
	classes string // device classes, which extended resources may mean
	pods    map[types.UID]*convertedPod
	round   int
}

type convertedPod struct {
	version string
	pod     plan.Pod
	round   int
}

// begin starts a round. What was made under other device classes is forgotten.
func (k *converted) begin(c *Claims) {
	k.round++
	if classes := c.version(); k.pods == nil || classes != k.classes {
		k.classes, k.pods = classes, map[types.UID]*convertedPod{}
	}
}

// of is c.ConvertPod. A pod with resource claims is not kept, since they change
// without it; nor is one that no API server has numbered.
func (k *converted) of(c *Claims, p *corev1.Pod) plan.Pod {
	if len(p.Spec.ResourceClaims) > 0 || p.UID == "" || p.ResourceVersion == "" {
		return c.ConvertPod(p)
	}
	had := k.pods[p.UID]
	if had == nil {
		had = &convertedPod{}
		k.pods[p.UID] = had
	}
	if had.version != p.ResourceVersion {
		had.version, had.pod = p.ResourceVersion, c.ConvertPod(p)
	}
	had.round = k.round
	return had.pod
}

// end forgets pods that were not asked for in this round.
func (k *converted) end() {
	maps.DeleteFunc(k.pods, func(_ types.UID, p *convertedPod) bool { return p.round != k.round })
}

// version tells sets of device classes apart.
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
