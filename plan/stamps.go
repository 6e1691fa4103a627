package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// stampAt returns the time recorded under name in a sorted list.
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

// sortedState is a copy in order.
func sortedState(m State) State {
	out := State{
		LastScaleUp: sortedStamps(m.LastScaleUp), LastScaleDown: sortedStamps(m.LastScaleDown),
		LastRepartition: sortedStamps(m.LastRepartition), FreeSince: sortedStamps(m.FreeSince),
		UnknownSince: sortedStamps(m.UnknownSince), SickSince: sortedStamps(m.SickSince),
		LastReplace: sortedStamps(m.LastReplace), LastDrain: sortedStamps(m.LastDrain),
		Grown: slices.Clone(m.Grown), Removed: slices.Clone(m.Removed), Failures: slices.Clone(m.Failures),
	}
	for _, list := range [][]Growth{out.Grown, out.Removed} {
		slices.SortFunc(list, func(a, b Growth) int {
			return cmp.Or(strings.Compare(a.Pool, b.Pool), a.At.Compare(b.At), cmp.Compare(a.Nodes, b.Nodes))
		})
	}
	slices.SortFunc(out.Failures, func(a, b Failure) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), b.At.Compare(a.At), cmp.Compare(a.Count, b.Count))
	})
	out.Failures = slices.CompactFunc(out.Failures, func(a, b Failure) bool { return a.Name == b.Name })
	return out
}
