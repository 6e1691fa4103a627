package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/report/query"
)

// open names a query that was not answered in full; it is empty where all were. A
// missing answer is not a zero.
func (m *maker) open(ids ...query.ID) string {
	for _, p := range m.a.Problems {
		if slices.Contains(ids, p.ID) {
			return fmt.Sprintf("the query %q was not answered in full: %s", p.ID, p.Err)
		}
	}
	return ""
}

// unless returns the number, unknown where any of its queries was not answered in full.
func (m *maker) unless(n Number, ids ...query.ID) Number {
	if why := m.open(ids...); why != "" {
		return Unknown(why)
	}
	return n
}

// lacks joins what a section lacks.
func lacks(reasons ...string) string {
	return strings.Join(slices.DeleteFunc(reasons, func(s string) bool { return s == "" }), "; ")
}
