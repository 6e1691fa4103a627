package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// NewRecorder returns a recorder whose Events come from component, and the
// function that ends it. Equal Events are counted, not repeated, and floods are
// dropped by the recorder's own spam filter: an Event is news, never a record.
func NewRecorder(client kubernetes.Interface, scheme *runtime.Scheme, component string) (record.EventRecorder, func()) {
	b := record.NewBroadcaster()
	b.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return b.NewRecorder(scheme, corev1.EventSource{Component: component}), b.Shutdown
}
