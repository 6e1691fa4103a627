package metric

import (
	"cmp"
	"slices"
)

// All returns every series we emit, sorted by name.
func All() []Desc {
	return sorted(slices.Concat(gpuSeries(), exporterSeries(), autoscalerSeries(), agentSeries(), adapterSeries()),
		func(d Desc) string { return d.Name })
}

// Of returns the series that one program emits, sorted by name.
func Of(owner Owner) []Desc {
	return slices.DeleteFunc(All(), func(d Desc) bool { return d.Owner != owner })
}

// Find returns the series of that name.
func Find(name string) (Desc, bool) {
	all := All()
	i := slices.IndexFunc(all, func(d Desc) bool { return d.Name == name })
	if i < 0 {
		return Desc{}, false
	}
	return all[i], true
}

func sorted[T any](all []T, name func(T) string) []T {
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	return all
}
