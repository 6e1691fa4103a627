package states

import (
	"math"
	"slices"
	"testing"
)

// A state is the same however often it is recorded, and whatever else the machine
// does meanwhile: nothing in it is of a clock or a scheduler that is not simulated.
func TestRecordedAgainItIsTheSame(t *testing.T) {
	first, ok := Find(MIG)
	if !ok {
		t.Fatal("there is no such state")
	}
	exporter, err := newSelf()
	if err != nil {
		t.Fatal(err)
	}
	again, err := record(MIG, exporter)
	if err != nil {
		t.Fatal(err)
	}
	for name, sets := range map[string][2]*set{"honor_labels": {first.recorded.honored, again.honored}, "exported_": {first.recorded.plain, again.plain}} {
		a, b := texts(sets[0]), texts(sets[1])
		for key, points := range a {
			if !slices.Equal(points, b[key]) {
				t.Errorf("%s: %s\n first %v\n again %v", name, key, points, b[key])
			}
		}
		for key := range b {
			if a[key] == nil {
				t.Errorf("%s: %s is in the second recording alone", name, key)
			}
		}
	}
}

// texts are a set's points by series, comparable where they are no numbers.
func texts(s *set) map[string][]uint64 {
	all := map[string][]uint64{}
	for _, of := range s.byName {
		for _, one := range of {
			var points []uint64
			for _, p := range one.points {
				points = append(points, uint64(p.T()), math.Float64bits(p.F()))
			}
			all[one.labels.String()] = points
		}
	}
	return all
}
