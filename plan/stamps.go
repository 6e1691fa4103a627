package plan

import (
	"slices"
	"strings"
	"time"
)

// stampAt returns the time remembered under name in a sorted list.
func stampAt(list []Stamp, name string) (time.Time, bool) {
	i, ok := slices.BinarySearchFunc(list, name, func(s Stamp, n string) int { return strings.Compare(s.Name, n) })
	if !ok {
		return time.Time{}, false
	}
	return list[i].At, true
}

// stamped returns a sorted copy of list with name at the given time.
func stamped(list []Stamp, name string, at time.Time) []Stamp {
	i, ok := slices.BinarySearchFunc(list, name, func(s Stamp, n string) int { return strings.Compare(s.Name, n) })
	out := slices.Clone(list)
	if ok {
		out[i].At = at
		return out
	}
	return slices.Insert(out, i, Stamp{name, at})
}

// sortedStamps returns a sorted copy with one stamp, the latest, for each name.
func sortedStamps(list []Stamp) []Stamp {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b Stamp) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return b.At.Compare(a.At)
	})
	return slices.CompactFunc(out, func(a, b Stamp) bool { return a.Name == b.Name })
}
