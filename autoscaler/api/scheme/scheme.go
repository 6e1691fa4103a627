// Package scheme has the Kubernetes types that gpuscale's clients read and write: the cluster's own
// and gpuscale's. It makes no client.
package scheme

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// New returns a new scheme. It panics if two types have the same name; the types are fixed, so any
// test would find that.
func New() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)))
	return s
}
