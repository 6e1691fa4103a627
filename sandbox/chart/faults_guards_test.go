package chart

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const roleKind = "rbac.authorization.k8s.io/v1/ClusterRole"

// Objects of others that block the autoscaler.
var guardFaults = []fault{
	{
		name: "the device plugin offers the pool's instances by another name",
		seed: func(x *trouble) {
			x.change("v1/Node", "", slicedNode, mark(map[string]string{"nvidia.com/mig.strategy": "single"}, nil))
		},
		check: "mig-strategy", objects: []string{"Node " + slicedNode}, says: "spec.mig of its GPUNodePool sliced",
	},
	{
		name: "a node that a person has cordoned and forgotten",
		seed: func(x *trouble) {
			x.add(fmt.Sprintf(gpuNode, "closed-1", `"1"`, product))
			x.change("v1/Node", "", "closed-1", func(u *unstructured.Unstructured) {
				x.must(unstructured.SetNestedField(u.Object, true, "spec", "unschedulable"))
				x.must(unstructured.SetNestedSlice(u.Object, []any{map[string]any{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
					"timeAdded": time.Now().Add(-48 * time.Hour).UTC().Format(time.RFC3339)}}, "spec", "taints"))
			})
		},
		check: "cordon-forgotten", objects: []string{"Node closed-1"}, says: "not by us", typed: true,
	},
	{
		name:  "a budget that allows nothing, ever",
		seed:  func(x *trouble) { x.add(noneMayGo) },
		check: "budget-forever", objects: []string{"PodDisruptionBudget team/embed"}, says: "spec.maxUnavailable is 0", typed: true,
	},
	{
		name:  "a webhook over evictions without a server",
		seed:  func(x *trouble) { x.add(deadWebhook) },
		check: "webhook-dead", objects: []string{"ValidatingWebhookConfiguration evictions"}, says: "gpu-operator/gone does not exist",
	},
	{
		name: "the autoscaler may not evict",
		seed: func(x *trouble) {
			x.change(roleKind, "", autoscalerName, func(u *unstructured.Unstructured) {
				rules, _, err := unstructured.NestedSlice(u.Object, "rules")
				x.must(err)
				rules = slices.DeleteFunc(rules, func(rule any) bool {
					resources, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), "resources")
					return slices.Contains(resources, "pods/eviction")
				})
				x.must(unstructured.SetNestedSlice(u.Object, rules, "rules"))
			})
		},
		check: "program-rights", objects: []string{"ClusterRole " + autoscalerName}, says: "create pods/eviction", typed: true,
	},
	{
		name:  "the adapter's certificate is for another name",
		seed:  func(x *trouble) { x.served(24*365*time.Hour, "gpuscale-adapter.elsewhere.svc") },
		check: "apiservice-ca", objects: []string{"APIService " + external, "APIService v1beta1.custom.metrics.k8s.io", "APIService " + custom},
		says:   "certificate is valid for gpuscale-adapter.elsewhere.svc",
		brings: []string{"hpa-metric-unknown", "hpa-inactive", "scrape-missing"}, // whose names cannot be read, and whom Prometheus does not believe either
	},
}

const noneMayGo = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: embed, namespace: team}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: embed}}}
`

const deadWebhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: evictions}
webhooks:
- name: evictions.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {service: {namespace: gpu-operator, name: gone}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/eviction]}]
`
