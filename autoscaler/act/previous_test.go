package act

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
)

// configs are mig-manager's as they stand.
func (w *world) configs() partition.Config {
	w.t.Helper()
	var cm corev1.ConfigMap
	if err := w.client.Get(w.t.Context(), partition.DefaultConfigMap, &cm); err != nil {
		w.t.Fatal(err)
	}
	c, err := partition.ParseConfig(cm.Data[partition.ConfigKey])
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestGoesBackToWhatItWas: the label that a node has is what it goes back to where
// that is what the node looks like. Where it names a config that is gone, or that the
// node is not cut to, it goes back to its layout by our own name for it.
func TestGoesBackToWhatItWas(t *testing.T) {
	for name, test := range map[string]struct {
		configs string
		back    bool // to the label
	}{
		"gone":   {"{}", false},
		"true":   {"{theirs: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]}", true},
		"untrue": {"{theirs: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]}", false},
		"silent": {"{theirs: []}", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			edit(w, testNode(), func(n *corev1.Node) { n.Labels[partition.ConfigLabel] = "theirs" })
			cm := &corev1.ConfigMap{Data: map[string]string{partition.ConfigKey: "version: v1\nmig-configs: " + test.configs}}
			cm.Namespace, cm.Name = partition.DefaultConfigMap.Namespace, partition.DefaultConfigMap.Name
			if err := w.client.Create(t.Context(), cm); err != nil {
				t.Fatal(err)
			}
			w.want(Done, w.cut())
			r, _, _ := partition.RecordOf(w.node())
			if (r.Previous == "theirs") != test.back {
				t.Errorf("it goes back to %s", r.Previous)
			}
			if w.configs().MIGConfigs[r.Previous] == nil {
				t.Errorf("config %s cannot be selected", r.Previous)
			}
		})
	}
}

// TestSelectsWhatTheLabelSaysAlready: a node that came out of a reset has the label
// of the very layout that it is to get. mig-manager acts on a change only.
func TestSelectsWhatTheLabelSaysAlready(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, w.cut())
	first, _, _ := partition.RecordOf(w.node())
	edit(w, testNode(), func(n *corev1.Node) { // cut back by hand, the label forgotten
		delete(n.Annotations, partition.RecordAnnotation)
		n.Spec.Unschedulable = false
	})
	w.want(Done, w.cut())
	r, ok, err := partition.RecordOf(w.node())
	if !ok || err != nil || r.Config == first.Config || w.node().Labels[partition.ConfigLabel] != r.Config {
		t.Fatalf("record %+v, label %s: nothing has changed for mig-manager", r, w.node().Labels[partition.ConfigLabel])
	}
	if c := w.configs().MIGConfigs; !reflect.DeepEqual(c[r.Config], c[first.Config]) || len(c[r.Config]) == 0 {
		t.Errorf("%s gives %v, %s %v", r.Config, c[r.Config], first.Config, c[first.Config])
	}
	if r.Previous == first.Config || r.Previous == r.Config {
		t.Errorf("it would go back to %s, which is the target", r.Previous)
	}
}

// TestNoAgentNoCordon: a node whose agent is silent or may not work is not cordoned
// for an operation that nobody would do.
func TestNoAgentNoCordon(t *testing.T) {
	for _, text := range []string{"", "{", partition.Report{At: start, Problem: "switched off", Cards: []partition.CardReport{{UUID: "GPU-a"}}}.String()} {
		w, cut := withAgent(t)
		edit(w, testNode(), func(n *corev1.Node) { n.Annotations = map[string]string{partition.LayoutAnnotation: text} })
		w.want(Refused, cut)
		if n := w.node(); n.Spec.Unschedulable || n.Annotations[partition.RecordAnnotation] != "" {
			t.Errorf("report %q: cordoned %v", text, n.Spec.Unschedulable)
		}
	}
}
