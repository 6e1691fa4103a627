package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// blocker is what prevents the repartition of a GPU, empty for nothing.
type blocker string

const (
	blockAllocated   blocker = "allocated"
	blockIdle        blocker = "with an unknown idle time"
	blockUnknown     blocker = "with unknown allocation"
	blockSick        blocker = "sick"
	blockRepartition blocker = "being repartitioned"
	blockBusyNode    blocker = "on a node that is not in service"
	blockPromised    blocker = "about to be used"
	blockCapacity    blocker = "on a node without free capacity"
	blockLayout      blocker = "without a layout for it"
	blockFrozen      blocker = "in a frozen pool"
)

// causes counts nodes or GPUs by what is in the way, with one example of each.
type causes []cause

type cause struct {
	why, example string
	n            int
}

func (c *causes) add(more cause) {
	i := slices.IndexFunc(*c, func(one cause) bool { return one.why == more.why })
	if i < 0 {
		*c = append(*c, more)
		return
	}
	(*c)[i].n += more.n
}

// maxCauses bounds the causes that a text lists.
const maxCauses = 6

// String is "3 allocated (n1/0 …), 1 sick (n2/0)", the most frequent first.
func (c causes) String() string {
	all := slices.Clone(c)
	slices.SortStableFunc(all, func(a, b cause) int { return cmp.Compare(b.n, a.n) })
	var parts []string
	for _, one := range all[:min(len(all), maxCauses)] {
		more := ""
		if one.n > 1 {
			more = " …"
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s%s)", one.n, one.why, one.example, more))
	}
	if len(all) > maxCauses {
		parts = append(parts, "others")
	}
	return strings.Join(parts, ", ")
}
