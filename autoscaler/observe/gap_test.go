package observe

import (
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
)

// TestAPausedExporterLeavesUnknown: mig-manager ends the node's exporter while
// it cuts a card, and the series end with it. Until it speaks again nothing on
// the node is free, with an operation under way or just after it.
func TestAPausedExporterLeavesUnknown(t *testing.T) {
	n := node("n", halves(2))
	n.Labels[partition.ConfigLabel] = "halves"
	w := newWorld(t, pool("p"), n, pod("a", "n", halves(1)))
	w.readings = NewReadings(start, twoHalves(1, "a"))
	if card := w.at(0).Nodes[0].Cards[0]; !card.HoldersKnown || card.Instances[1].IdleSince.IsZero() {
		t.Fatalf("before: %+v", card)
	}
	for i, operation := range []bool{true, false} {
		n.Annotations = nil
		if operation {
			n.Annotations = map[string]string{partition.RecordAnnotation: partition.Record{
				ID: "op", Model: "H100-80GB", Target: "7g.80gb@0", Config: "c", Previous: "halves", Deadline: start.Add(time.Minute),
			}.String()}
		}
		n.ResourceVersion = ""
		if err := w.client.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		after := time.Duration(i+1) * time.Second
		w.readings = NewReadings(start.Add(after), Answers{})
		cards := w.at(after).Nodes[0].Cards
		if len(cards) != 1 {
			t.Fatalf("operation %v: %d cards", operation, len(cards))
		}
		for _, card := range cards {
			if card.HoldersKnown || !card.IdleSince.IsZero() {
				t.Errorf("operation %v: %+v", operation, card)
			}
			for _, inst := range card.Instances {
				if !inst.IdleSince.IsZero() {
					t.Errorf("operation %v: an instance is free since %s", operation, inst.IdleSince)
				}
			}
		}
	}
}
