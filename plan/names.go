package plan

import "strings"

// names makes many small strings out of few large ones: verdicts on two hundred
// thousand subjects should not cost as many allocations.
type names struct{ chunk strings.Builder }

// chunkSize is how much is made at a time.
const chunkSize = 64 << 10

// join is the three, one after the other.
func (n *names) join(a, b, c string) string {
	need := len(a) + len(b) + len(c)
	if n.chunk.Cap()-n.chunk.Len() < need {
		n.chunk = strings.Builder{}
		n.chunk.Grow(max(chunkSize, need))
	}
	start := n.chunk.Len()
	n.chunk.WriteString(a)
	n.chunk.WriteString(b)
	n.chunk.WriteString(c)
	return n.chunk.String()[start:]
}

// digits are the indices that cards have.
var digits = [...]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"}
