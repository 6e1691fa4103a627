// Package kubefake begins fakes of the API server, for tests. It knows no kinds.
package kubefake

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// decoders are kept by scheme: making one takes longer than most tests.
var decoders sync.Map

// New begins a fake. Its tracker keeps no managedFields. The default tracker makes a REST mapper of all types
// for each write, which took most of the tests' time (controller-runtime 0.25, client-go 0.37; 2026-11).
func New(types *runtime.Scheme) *fake.ClientBuilder {
	decoder, known := decoders.Load(types)
	if !known {
		decoder, _ = decoders.LoadOrStore(types, serializer.NewCodecFactory(types).UniversalDecoder())
	}
	return fake.NewClientBuilder().WithScheme(types).WithObjectTracker(clienttesting.NewObjectTracker(types, decoder.(runtime.Decoder)))
}
