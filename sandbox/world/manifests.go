package world

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// aggregated is where an aggregated API server really listens.
type aggregated struct {
	port     int
	caBundle []byte
}

// adapt changes an object of deploy/manifests, the same that a cluster gets, for the
// sandbox; false drops it. Programs are processes here, so there is no Deployment and no
// DaemonSet; and the API server reaches an aggregated one on the loopback through a
// Service of type ExternalName, at its real port.
func adapt(o *unstructured.Unstructured, adapter aggregated) bool {
	switch o.GetKind() {
	case "Deployment", "DaemonSet", "ServiceMonitor", "PodMonitor", "PrometheusRule", "NetworkPolicy", "PodDisruptionBudget", "Namespace":
		return false
	case "Service":
		o.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
	case "APIService":
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		if spec == nil {
			return true // the API server will report what is missing
		}
		delete(spec, "insecureSkipTLSVerify")
		spec["caBundle"] = base64.StdEncoding.EncodeToString(adapter.caBundle)
		if service, ok := spec["service"].(map[string]any); ok {
			service["port"] = int64(adapter.port)
		}
		o.Object["spec"] = spec
	}
	return true
}
