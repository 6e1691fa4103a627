package signal

import (
	"hash/maphash"

	"github.com/prometheus/prometheus/model/labels"
)

// Intake reads a rule's answers, series by series. It keeps the label sets of
// the previous answer: a series that repeats allocates nothing, and its value
// and its scrape time share one label set. Not safe for concurrent use.
type Intake struct {
	seed    maphash.Seed
	sets    map[uint64]labelSet
	answer  uint32 // number of the current answer
	alive   int    // label sets seen in it
	samples []Sample
	parts   map[string]string
	build   labels.ScratchBuilder
}

// labelSet is a label set and the last answer it was seen in.
type labelSet struct {
	labels labels.Labels
	answer uint32
}

// NewIntake returns an empty Intake.
func NewIntake() *Intake {
	return &Intake{seed: maphash.MakeSeed(), sets: map[uint64]labelSet{}, parts: map[string]string{}, build: labels.NewScratchBuilder(16)}
}

// Begin discards the series added since the last End.
func (in *Intake) Begin() {
	in.answer++
	in.alive, in.samples = 0, nil
}

// Add takes one series: its labels as pairs of name and value in order of name,
// none empty. It keeps no reference to them.
func (in *Intake) Add(pairs [][2][]byte, value float64) {
	s := Sample{Value: value}
	var hash uint64
	for _, p := range pairs {
		switch string(p[0]) {
		case PartLabel:
			s.Part = in.part(p[1])
		case labels.MetricName:
		default:
			hash = hash*0x9e3779b97f4a7c15 + maphash.Bytes(in.seed, p[1])
		}
	}
	known, met := in.sets[hash]
	switch {
	case met && same(known.labels, pairs):
		s.Labels = known.labels
	default:
		s.Labels = in.labels(pairs)
		known = labelSet{labels: s.Labels}
	}
	if known.answer != in.answer {
		in.alive++
		in.sets[hash] = labelSet{known.labels, in.answer}
	}
	if in.samples == nil {
		in.samples = make([]Sample, 0, 2*len(in.sets)) // each has a value and a time
	}
	in.samples = append(in.samples, s)
}

// End returns the series added, for [Table.Read]. Label sets missing from the
// answer are forgotten once they are as many as a quarter of the others.
func (in *Intake) End() []Sample {
	if len(in.sets)-in.alive > in.alive/4 {
		sets := make(map[uint64]labelSet, in.alive)
		for hash, s := range in.sets {
			if s.answer == in.answer {
				sets[hash] = s
			}
		}
		in.sets = sets
	}
	if len(in.parts) > maxParts { // an arbitrary answer must not grow it without bound
		clear(in.parts)
	}
	samples := in.samples
	in.samples = nil
	return samples
}

const maxParts = 1000

func (in *Intake) part(text []byte) string {
	if p, ok := in.parts[string(text)]; ok {
		return p
	}
	p := string(text)
	in.parts[p] = p
	return p
}

func (in *Intake) labels(pairs [][2][]byte) labels.Labels {
	in.build.Reset()
	for _, p := range pairs {
		if belongs(p[0]) {
			in.build.Add(string(p[0]), string(p[1]))
		}
	}
	return in.build.Labels()
}

// belongs reports whether a label is one of the label set: see NewSample.
func belongs(name []byte) bool { return string(name) != PartLabel && string(name) != labels.MetricName }

// same reports whether the pairs are those of a label set.
func same(ls labels.Labels, pairs [][2][]byte) bool {
	equal := true
	ls.Range(func(l labels.Label) {
		for len(pairs) > 0 && !belongs(pairs[0][0]) {
			pairs = pairs[1:]
		}
		if !equal || len(pairs) == 0 || l.Name != string(pairs[0][0]) || l.Value != string(pairs[0][1]) {
			equal = false
			return
		}
		pairs = pairs[1:]
	})
	for len(pairs) > 0 && !belongs(pairs[0][0]) {
		pairs = pairs[1:]
	}
	return equal && len(pairs) == 0
}
