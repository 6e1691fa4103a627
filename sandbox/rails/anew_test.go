package rails

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestNodesMadeAnewArePlayed: a node that is made again under the name of one that went
// a moment ago is as good as any, here: its pods run. Every other test begins so, with
// the nodes of the test before.
func TestNodesMadeAnewArePlayed(t *testing.T) {
	w := newWorld(t, setup{})
	w.pool("h100", 1, 1)
	w.until("the fleet", w.has("h100", 1))
	for i := range 20 {
		w.remake("h100-1")
		pod := w.lonely("h100-1")
		w.await(fmt.Sprintf("the pod on node %d of that name runs", i+1), func() error {
			w.must(w.admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("it is %s", pod.Status.Phase)
			}
			return nil
		})
		w.must(w.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	}
}
