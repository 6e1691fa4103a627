package plan

import (
	"fmt"
	"strings"
)

// blocker is what stands against cutting a card.
type blocker int

const (
	blockNone blocker = iota
	blockHeld
	blockIdle
	blockUnknown
	blockSick
	blockCut
	blockBusyNode
	blockPromised
	blockRoom
	blockLayout
	blockFrozen
	blockerCount
)

var blockerText = [blockerCount]string{
	blockHeld: "held", blockIdle: "with an unknown idle time", blockUnknown: "with unknown holders", blockSick: "sick",
	blockCut:      "being cut",
	blockBusyNode: "on a node that is not in service", blockPromised: "about to be used", blockRoom: "on a node without room",
	blockLayout: "without a layout for it", blockFrozen: "in a frozen pool",
}

// blockers counts cards by what stands against cutting them, with one example.
type blockers struct {
	n       [blockerCount]int
	example [blockerCount]string
}

func (b *blockers) add(why blocker, node string, card int) {
	if b.n[why]++; b.n[why] == 1 {
		b.example[why] = fmt.Sprintf("%s/%d", node, card)
	}
}

func (b *blockers) join(more blockers) {
	for why, n := range more.n {
		if b.n[why] == 0 {
			b.example[why] = more.example[why]
		}
		b.n[why] += n
	}
}

func (b *blockers) total() int {
	sum := 0
	for _, n := range b.n {
		sum += n
	}
	return sum
}

// String is "3 held (n1/0 …), 1 sick (n2/0)".
func (b *blockers) String() string {
	var parts []string
	for why, n := range b.n {
		switch {
		case n == 1:
			parts = append(parts, fmt.Sprintf("1 %s (%s)", blockerText[why], b.example[why]))
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s (%s …)", n, blockerText[why], b.example[why]))
		}
	}
	return strings.Join(parts, ", ")
}
