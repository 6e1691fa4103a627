// Package scheme is the Kubernetes types that our clients read and write: the
// cluster's own and ours. It makes no client.
package scheme

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// New returns a scheme of its caller's own. It panics where two types have one name:
// they are fixed, so that happens to nobody or to the first test.
func New() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)))
	return s
}
