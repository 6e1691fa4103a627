package chart_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestEgressNamesPeers: no rule of a NetworkPolicy reaches everywhere, port 53 neither: it would carry
// data out.
func TestEgressNamesPeers(t *testing.T) {
	policies := 0
	for _, o := range render(t, helm(t), `{prometheus: {url: "http://p"}, adapter: {enabled: true}, autoscaler: {enabled: true}, report: {enabled: true}, networkPolicy: {enabled: true, egress: {enabled: true}}}`) {
		if o.GetKind() != "NetworkPolicy" {
			continue
		}
		policies++
		rules, _, err := unstructured.NestedSlice(o.Object, "spec", "egress")
		if err != nil || len(rules) == 0 {
			t.Errorf("%s: egress %v, %v", id(o), rules, err)
		}
		for _, rule := range rules {
			if to, _, err := unstructured.NestedSlice(rule.(map[string]any), "to"); err != nil || len(to) == 0 {
				t.Errorf("%s: a rule reaches everywhere: %v", id(o), rule)
			}
		}
	}
	if policies < 3 {
		t.Errorf("%d policies", policies)
	}
}
