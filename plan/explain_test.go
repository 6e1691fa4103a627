package plan

import "testing"

// TestUnknownPodIsNotExplained: running and unknown pods have no explanation,
// nor have running gangs.
func TestUnknownPodIsNotExplained(t *testing.T) {
	s := Snapshot{Pods: []Pod{{Namespace: "a", Name: "runs", Node: "n1", Gang: "a/g"}}}
	for _, name := range []string{"a/runs", "a/none", ""} {
		if _, ok := Explain(s, DefaultPolicy(), name); ok {
			t.Errorf("%q is explained", name)
		}
	}
	if _, ok := ExplainGang(s, DefaultPolicy(), "a/g"); ok {
		t.Error("a gang that runs is explained")
	}
}
