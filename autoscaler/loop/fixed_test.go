package loop

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/gpuscale/gpuscale/plan"
)

// TestStatusOfAFixedPool: a fixed pool is ready if all its nodes are; the condition of one
// without nodes names the remedy.
func TestStatusOfAFixedPool(t *testing.T) {
	for name, c := range map[string]struct {
		size, ready int
		want        string
	}{
		"no node is labelled": {0, 0, "False NoNodes: no node has the label gpuscale.io/pool=p; label"},
		"one is not ready":    {3, 2, "False NotAllReady: 2 of 3 nodes are ready"},
		"all are ready":       {3, 3, "True AllReady: "},
	} {
		pool := named("p")
		f := finding{pool: plan.Pool{Name: "p", Fixed: true, Size: c.size, Target: c.size, Min: c.size, Max: c.size}, ready: c.ready}
		f.write(pool)
		got := meta.FindStatusCondition(pool.Status.Conditions, conditionReady)
		if text := fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message); !strings.HasPrefix(text, c.want) {
			t.Errorf("%s: %s", name, text)
		}
		if s := pool.Status; int(s.Size) != c.size || int(s.Target) != c.size || int(s.Ready) != c.ready || s.Upcoming != 0 {
			t.Errorf("%s: size %d, target %d, ready %d, upcoming %d", name, s.Size, s.Target, s.Ready, s.Upcoming)
		}
	}
}
