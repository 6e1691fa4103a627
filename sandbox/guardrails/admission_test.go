package guardrails

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// TestAdmission plays testdata/admission.yaml: objects that the API server must accept or reject.
func TestAdmission(t *testing.T) {
	w := newWorld(t, setup{})
	text, err := os.ReadFile("testdata/admission.yaml")
	w.must(err)
	var file []struct {
		Object  *unstructured.Unstructured
		Takes   map[string]json.RawMessage
		Refuses []struct {
			Change json.RawMessage
			Says   string
		}
	}
	w.must(yaml.UnmarshalStrict(text, &file))
	for _, part := range file {
		w.must(w.CreateObject(t.Context(), part.Object))
		change := func(patch []byte) error {
			return w.Admin.Patch(t.Context(), part.Object.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.DryRunAll)
		}
		for name, patch := range part.Takes {
			if err := change(patch); err != nil {
				t.Errorf("%s: %s: %v", part.Object.GetName(), name, err)
			}
		}
		for _, c := range part.Refuses {
			if err := change(c.Change); err == nil || !strings.Contains(err.Error(), c.Says) {
				t.Errorf("%s: %s: %v, want %q", part.Object.GetName(), c.Change, err, c.Says)
			}
		}
		if err := change([]byte(`{"metadata":{"annotations":{"note":"` + strings.Repeat("x", 1<<20) + `"}}}`)); err == nil || !strings.Contains(err.Error(), "annotations") {
			t.Errorf("%s: an annotation of 1 MB: %v", part.Object.GetName(), err)
		}
	}
}
