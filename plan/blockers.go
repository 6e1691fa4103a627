package plan

import (
	"fmt"
	"strings"
)

// blocker is what prevents the repartition of a GPU.
type blocker int

const (
	blockNone blocker = iota
	blockAllocated
	blockIdle
	blockUnknown
	blockSick
	blockRepartition
	blockBusyNode
	blockPromised
	blockCapacity
	blockLayout
	blockFrozen
	blockerCount
)

var blockerText = [blockerCount]string{
	blockAllocated: "allocated", blockIdle: "with an unknown idle time", blockUnknown: "with unknown allocation", blockSick: "sick",
	blockRepartition: "being repartitioned",
	blockBusyNode:    "on a node that is not in service", blockPromised: "about to be used", blockCapacity: "on a node without free capacity",
	blockLayout: "without a layout for it", blockFrozen: "in a frozen pool",
}

// blockers counts GPUs by what prevents their repartition, with one example of
// each.
type blockers struct {
	n       [blockerCount]int
	example [blockerCount]string
}

func (b *blockers) add(why blocker, node string, device int) {
	if b.n[why]++; b.n[why] == 1 {
		b.example[why] = fmt.Sprintf("%s/%d", node, device)
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

// String is "3 allocated (n1/0 …), 1 sick (n2/0)".
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
