package scenario_test

import (
	"testing"

	"github.com/gpuscale/gpuscale/plan/scenario"
)

func TestLineOf(t *testing.T) {
	const text = `# a comment
policy freeze
pool p max=4
  gpus=1
pod a/x requests=gpu
pod a/w-{0..7} requests=gpu
pod "a/w-{0..1}" requests=gpu
gpu n/0 health=sick
pool p max=5
policy thaw
`
	for _, c := range []struct {
		verb, name string
		want       int
	}{
		{"pool", "p", 9}, {"pod", "a/x", 5}, {"pod", "a/w-7", 6}, {"pod", "a/w-8", 0}, {"pod", "a/w-{0..1}", 7},
		{"gpu", "n/0", 8}, {"policy", "", 10}, {"quota", "", 0}, {"pool", "q", 0},
	} {
		if got := scenario.LineOf(text, c.verb, c.name); got != c.want {
			t.Errorf("%s %s: line %d, want %d", c.verb, c.name, got, c.want)
		}
	}
	if got := scenario.LineOf("pod a/x requests=(", "pod", "a/x"); got != 0 {
		t.Errorf("of a text that cannot be read: line %d", got)
	}
}
