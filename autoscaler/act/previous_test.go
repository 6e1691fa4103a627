package act

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
)

// TestGoesBackToWhatItWas: a rollback selects the config of the node's label if that
// describes the node's layout. If the config is deleted or describes another layout, it
// selects our own config for the layout.
func TestGoesBackToWhatItWas(t *testing.T) {
	for name, test := range map[string]struct {
		configs string
		back    bool // to the label
	}{
		"gone":   {"{}", false},
		"true":   {"{theirs: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]}", true},
		"untrue": {"{theirs: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]}", false},
		"empty":  {"{theirs: []}", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			edit(w, testNode(), func(n *corev1.Node) { n.Labels[partition.ConfigLabel] = "theirs" })
			cm := &corev1.ConfigMap{Data: map[string]string{partition.ConfigKey: "version: v1\nmig-configs: " + test.configs}}
			cm.Namespace, cm.Name = partition.DefaultConfigMap.Namespace, partition.DefaultConfigMap.Name
			w.must(w.client.Create(t.Context(), cm))
			w.want(Done, w.repartition())
			r := w.record()
			if (r.Previous == "theirs") != test.back {
				t.Errorf("it rolls back to %s", r.Previous)
			}
			if w.configs().MIGConfigs[r.Previous] == nil {
				t.Errorf("config %s cannot be selected", r.Previous)
			}
		})
	}
}

// TestSelectsWhatTheLabelSaysAlready: after a reset a node may have the label of its
// target layout already. mig-manager acts on a change of the label only.
func TestSelectsWhatTheLabelSaysAlready(t *testing.T) {
	w := newWorld(t, nil)
	w.want(Done, w.repartition())
	first := w.record()
	edit(w, testNode(), func(n *corev1.Node) { // repartitioned by hand, the label unchanged
		delete(n.Annotations, partition.RecordAnnotation)
		n.Spec.Unschedulable = false
	})
	w.want(Done, w.repartition())
	r := w.record()
	if r.Config == first.Config || w.node().Labels[partition.ConfigLabel] != r.Config {
		t.Fatalf("record %+v, label %s: nothing has changed for mig-manager", r, w.node().Labels[partition.ConfigLabel])
	}
	if c := w.configs().MIGConfigs; !reflect.DeepEqual(c[r.Config], c[first.Config]) || len(c[r.Config]) == 0 {
		t.Errorf("%s gives %v, %s %v", r.Config, c[r.Config], first.Config, c[first.Config])
	}
	if r.Previous == first.Config || r.Previous == r.Config {
		t.Errorf("it would roll back to %s, which is the target", r.Previous)
	}
}

// TestNoAgentNoCordon: a node whose agent's report is missing, unreadable or switched off
// is not cordoned.
func TestNoAgentNoCordon(t *testing.T) {
	for _, text := range []string{"", "{", partition.Report{At: start, Problem: "switched off", GPUs: []partition.GPUReport{{UUID: "GPU-a"}}}.String()} {
		w, repartition := withAgent(t)
		edit(w, testNode(), func(n *corev1.Node) { n.Annotations = map[string]string{partition.LayoutAnnotation: text} })
		w.want(Refused, repartition)
		w.inService()
	}
}
