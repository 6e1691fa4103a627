package scheme_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

func TestNew(t *testing.T) {
	s := scheme.New()
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Node"), v1alpha1.GroupVersion.WithKind("GPUNodePool"), v1alpha1.GroupVersion.WithKind("GPUQuota"),
	} {
		if !s.Recognizes(kind) {
			t.Errorf("%s is not known", kind)
		}
	}
	if s == scheme.New() {
		t.Error("what one caller adds is there for the others")
	}
}
