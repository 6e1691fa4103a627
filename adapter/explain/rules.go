package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Rule is one of the adapter's rules, its source and its Prometheus.
type Rule struct {
	signal.Rule
	Source  string // "built in", or a file
	Querier Querier
}

// find returns a rule by name. The error suggests the nearest one.
func find(rules []Rule, name string) (Rule, error) {
	names := make([]string, len(rules))
	for i, rule := range rules {
		if rule.Name == name {
			return rule, nil
		}
		names[i] = rule.Name
	}
	slices.Sort(names)
	hint := ""
	if near := nearest(name, names); near != "" {
		hint = "did you mean " + near + "? "
	}
	return Rule{}, fmt.Errorf("no rule of the adapter is called %s; %sit has %s", name, hint, strings.Join(names, ", "))
}

// nearest returns the candidate with the smallest edit distance, "" if that is
// more than half the name's length.
func nearest(name string, candidates []string) string {
	best, fewest := "", len(name)/2+1
	for _, c := range candidates {
		if d := edits(name, c); d < fewest || d == fewest && c < best {
			best, fewest = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
