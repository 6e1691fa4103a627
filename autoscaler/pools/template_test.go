package pools

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

func testPool() *v1alpha1.GPUNodePool {
	return &v1alpha1.GPUNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: v1alpha1.GPUNodePoolSpec{
			Max:      5,
			Provider: v1alpha1.Provider{Scale: &deploymentRef},
			Template: v1alpha1.NodeTemplate{
				Product: "NVIDIA-H100-80GB-HBM3", GPUs: 2, Labels: map[string]string{"zone": "a"},
				Taints: []v1alpha1.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}},
				CPU:    resource.MustParse("64"), Memory: resource.MustParse("512Gi"),
			},
			MIG: &v1alpha1.MIG{BootLayout: []map[string]int32{{"3g.40gb": 1, "1g.10gb": 3}, {}}},
		},
	}
}

func TestTemplateErrorsNameTheField(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.GPUNodePool){
		"spec.template.product":  func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Product = "toaster" },
		"1 or 2":                 func(p *v1alpha1.GPUNodePool) { p.Spec.MIG.BootLayout = make([]map[string]int32, 3) },
		"spec.mig.bootLayout[1]": func(p *v1alpha1.GPUNodePool) { p.Spec.MIG.BootLayout[1] = map[string]int32{"9g.90gb": 1} },
		"spec.template.memory":   func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Memory = resource.MustParse("70017000000000000000000") },
		"spec.template.cpu":      func(p *v1alpha1.GPUNodePool) { p.Spec.Template.CPU = resource.MustParse("-1") },
		"spec.template.sharing":  func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Sharing = &v1alpha1.GPUSharing{Replicas: 2} },
		"has no MIG":             func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Product = "NVIDIA-L40S" },
	} {
		pool := testPool()
		change(pool)
		if _, err := templateOf(pool, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q in it", err, want)
		}
	}
	pool := testPool()
	pool.Spec.Provider = v1alpha1.Provider{}
	if _, err := (Providers{}).List(t.Context(), pool); !errors.Is(err, ErrNoProvider) {
		t.Errorf("err = %v", err)
	}
}
