package neighbours

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWhichMachinesGo: the fake removes Machines in Cluster API's default order, whatever their age.
func TestWhichMachinesGo(t *testing.T) {
	deleted := metav1.NewTime(time.Unix(100, 0))
	var all []unstructured.Unstructured
	for i, name := range []string{"b-young", "a-old", "booting", "marked", "leaving"} {
		u := unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"nodeRef": map[string]any{"name": name}}}}
		u.SetName(name)
		u.SetCreationTimestamp(metav1.NewTime(time.Unix(int64(i), 0)))
		switch name {
		case "booting":
			delete(u.Object, "status")
		case "marked":
			u.SetAnnotations(map[string]string{deleteMachine: ""})
		case "leaving":
			u.SetDeletionTimestamp(&deleted)
		}
		all = append(all, u)
	}
	if n := surplus(all, 2); n != 3 {
		t.Errorf("%d of 5 Machines go, want 3", n)
	}
	var order []string
	for _, u := range all {
		order = append(order, u.GetName())
	}
	if want := []string{"leaving", "marked", "booting", "a-old", "b-young"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
}
