package observe

import (
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// HAMi's annotations (2.9, pkg/device) of pods that must, or must not, have GPUs of a type: parts of
// products' names, separated by commas.
const (
	hamiUseType   = "nvidia.com/use-gputype"
	hamiNoUseType = "nvidia.com/nouse-gputype"
)

// keepToType keeps a pod off the pools whose GPUs HAMi would refuse for it.
func keepToType(annotations map[string]string, pools []v1alpha1.GPUNodePool, out *plan.Pod) {
	use, noUse := annotations[hamiUseType], annotations[hamiNoUseType]
	if out.Node != "" || out.Demand.Vendor != "nvidia" || strings.TrimSpace(use+noUse) == "" {
		return
	}
	var others []string
	for i := range pools {
		product := pools[i].Spec.Template.Product
		if strings.TrimSpace(use) != "" && !namesType(use, product) || namesType(noUse, product) {
			others = append(others, pools[i].Name)
		}
	}
	if len(others) > 0 {
		out.Affinity = notIn(out.Affinity, others)
	}
}

// namesType reports whether one of a list of types is a part of a product's name, which has blanks as
// the driver states it and dashes as feature discovery does.
func namesType(list, product string) bool {
	spaced := strings.NewReplacer("-", " ")
	product = spaced.Replace(strings.ToUpper(product))
	return slices.ContainsFunc(strings.Split(list, ","), func(of string) bool {
		of = strings.TrimSpace(of)
		return of != "" && strings.Contains(product, spaced.Replace(strings.ToUpper(of)))
	})
}
