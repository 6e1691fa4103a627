package metric

import (
	"cmp"
	"slices"
)

// declared and reads are the series that emit and read have declared.
var (
	declared []Desc
	reads    []Read
)

// emit declares a series of one program.
func emit(owner Owner, t Type, u Unit, name, help string, labels ...string) Desc {
	return emitOptional(owner, t, u, name, help, labels)
}

// emitOptional is emit with labels that are absent where they do not apply.
func emitOptional(owner Owner, t Type, u Unit, name, help string, labels []string, optional ...string) Desc {
	d := Desc{Name: name, Help: help, Type: t, Unit: u, Labels: labels, Optional: optional, Stability: Alpha, Owner: owner}
	declared = append(declared, d)
	return d
}

// read declares a series of other software.
func read(server string, t Type, u Unit, name, help string, labels ...string) Read {
	r := Read{Name: name, Type: t, Unit: u, Server: server, Help: help, Labels: labels}
	reads = append(reads, r)
	return r
}

// All returns every series we emit, sorted by name.
func All() []Desc { return sorted(declared, func(d Desc) string { return d.Name }) }

// Reads returns every series of other software that is read, sorted by name.
func Reads() []Read { return sorted(reads, func(r Read) string { return r.Name }) }

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

// FindRead returns the series of other software that has that name among its [Names].
func FindRead(name string) (Read, bool) {
	i := slices.IndexFunc(reads, func(r Read) bool { return slices.Contains(Names(r), name) })
	if i < 0 {
		return Read{}, false
	}
	return reads[i], true
}

func sorted[T any](all []T, name func(T) string) []T {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	return all
}
