package plan

import "strings"

// names joins many small strings in few allocations: a plan has two hundred
// thousand verdicts.
type names struct{ chunk strings.Builder }

// chunkSize is the size of a large string.
const chunkSize = 64 << 10

// join concatenates three strings.
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

// digits are the indices of GPUs as text.
var digits = [...]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"}
