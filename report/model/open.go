package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/report/query"
)

// open says what is lacking where any of the questions was not answered in full, empty
// where all were: no line in an answer that did not come is no zero.
func (m *maker) open(ids ...query.ID) string {
	for _, p := range m.a.Problems {
		if slices.Contains(ids, p.ID) {
			return fmt.Sprintf("the query %q was not answered in full: %s", p.ID, p.Err)
		}
	}
	return ""
}

// unless returns the number, unknown where any of the questions it is made from was not
// answered in full.
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
