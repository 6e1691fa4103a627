package alerts

import (
	"strconv"
	"strings"
)

// CriticalXIDs are those after which the exporter calls a GPU broken: it needs a reset
// or a technician. A test compares this list with the exporter's own.
func CriticalXIDs() []int { return []int{48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 169} }

// ApplicationXIDs are mostly caused by a program (a bad address, a bad instruction, a
// channel stopped or killed with its process). The program shows them; they raise no
// alert. All others but the critical ones raise a warning.
func ApplicationXIDs() []int { return []int{13, 31, 43, 45} }

// anyOf matches one of the codes, for use between quotes.
func anyOf(lists ...[]int) string {
	var words []string
	for _, list := range lists {
		for _, code := range list {
			words = append(words, strconv.Itoa(code))
		}
	}
	return strings.Join(words, "|")
}
