package world

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// aggregated is the address at which an aggregated API server really listens.
type aggregated struct {
	port     int
	caBundle []byte
}

// adapt changes an object of deploy/manifests for the sandbox; false drops it. Deployments and DaemonSets are
// dropped, since programs are processes here. The API server reaches an aggregated one on the loopback
// through a Service of type ExternalName, at its real port.
func adapt(o *unstructured.Unstructured, adapter aggregated) bool {
	switch o.GetKind() {
	case "Deployment", "DaemonSet", "ServiceMonitor", "PodMonitor", "PrometheusRule", "NetworkPolicy", "PodDisruptionBudget", "Namespace":
		return false
	case "Service":
		o.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
	case "APIService":
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		if spec == nil {
			return true // the API server reports what is missing
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
