package capacity

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// fits caches what can be added to a GPU's layout: fleets have few distinct
// layouts.
type fits struct{ extensions map[string]Size }

func newFits() *fits { return &fits{extensions: map[string]Size{}} }

// extension returns the size of the best legal layout that contains l, less l:
// the most compute, then the most memory. Where placed is false only the counts
// of l are known, and the best placement is assumed.
func (f *fits) extension(t *mig.Table, l mig.Layout, placed bool) Size {
	key := questionKey(t, l)
	if !placed {
		key += "?"
	}
	size, ok := f.extensions[key]
	if !ok {
		size = extend(t, l, placed)
		f.extensions[key] = size
	}
	return size
}

func extend(t *mig.Table, l mig.Layout, placed bool) Size {
	has := total(t, l)
	var best Size
	for _, m := range t.Maximal() {
		if placed && !contains(m, l) || !placed && !containsCounts(m, l) {
			continue
		}
		s := total(t, m).minus(has)
		if s.Compute > best.Compute || s.Compute == best.Compute && s.Memory > best.Memory {
			best = s
		}
	}
	return best
}

func total(t *mig.Table, l mig.Layout) Size {
	var s Size
	for _, p := range l {
		s = s.plus(sizeOf(t, p.Profile))
	}
	return s
}

func contains(m, l mig.Layout) bool {
	for _, p := range l {
		if !slices.Contains(m, p) {
			return false
		}
	}
	return true
}

func containsCounts(m, l mig.Layout) bool {
	have := mig.Counts(m)
	for _, c := range mig.Counts(l) {
		if !slices.ContainsFunc(have, func(h mig.Count) bool { return h.Profile == c.Profile && h.N >= c.N }) {
			return false
		}
	}
	return true
}

func questionKey(t *mig.Table, l mig.Layout) string {
	b := make([]byte, 0, 64)
	b = append(b, t.Model()...)
	b = append(b, 0)
	for _, q := range l {
		b = append(b, byte(q.Profile.Compute), byte(q.Profile.Memory), byte(q.Profile.Attrs), byte(q.Start))
	}
	return string(b)
}
