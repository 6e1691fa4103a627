package partition

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
)

// TestClockAhead: the leader that began to go back had a clock hours ahead. The next one
// does not wait until that hour before it tries again.
func TestClockAhead(t *testing.T) {
	for _, actuator := range []string{contract.ActuatorAgent, ""} {
		n, r := agentNode()
		r.Actuator, r.Config, r.Previous = actuator, "c", "p"
		r.Undo = &contract.Undo{Since: noon.Add(5 * time.Hour), Attempts: 1}
		n.Annotations[contract.RecordAnnotation] = r.String()
		n.Labels = map[string]string{contract.ConfigLabel: "p", contract.StateLabel: contract.StatePending}
		c, m := newManager(n)
		_ = m.edit(t.Context(), func(c *Config) error { c.MIGConfigs["p"] = nil; return nil })
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(n), n); err != nil {
			t.Fatal(err)
		}
		done, err := m.Undo(t.Context(), n, r, noon, time.Minute)
		if r, _, _ = contract.RecordOf(n); done || err != nil || r.Attempt() != 2 {
			t.Errorf("actuator %q: %v %v, attempt %d, want 2", actuator, done, err, r.Attempt())
		}
	}
	if elapsed(noon.Add(time.Second), noon) != 0 {
		t.Error("a clock that is a second behind is no jump")
	}
}

// TestCollectKeepsFormerConfigs: a node with a config selected by its other name goes back to
// it by the first.
func TestCollectKeepsFormerConfigs(t *testing.T) {
	_, m := newManager()
	const first, last = "gpuscale-fffffffff0", "gpuscale-fffffffff1"
	err := m.edit(t.Context(), func(c *Config) error {
		c.MIGConfigs[first], c.MIGConfigs[otherName(first)], c.MIGConfigs[last] = nil, nil, nil
		for i := range keepUnused {
			c.MIGConfigs["gpuscale-"+string(rune('a'+i/26))+string(rune('a'+i%26))] = nil
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Collect(t.Context(), map[string]bool{otherName(first): true}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{first: true, otherName(first): true, last: false} {
		_ = m.edit(t.Context(), func(c *Config) error {
			if _, ok := c.MIGConfigs[name]; ok != want {
				t.Errorf("%s: %v, want %v", name, ok, want)
			}
			return nil
		})
	}
}
