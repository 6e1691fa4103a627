package states

import (
	"math"
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// A state is the same however often it is recorded, and whatever else runs on the
// machine: it depends on no real clock or scheduler.
func TestRecordedAgainItIsTheSame(t *testing.T) {
	testall.Only(t, "series that the rules' golden values do not read are the same, too")
	first, ok := Find(MIG)
	if !ok {
		t.Fatal("there is no such state")
	}
	recorded := first.recorded()
	exporter, err := newSelf()
	require.NoError(t, err)
	again, err := record(MIG, exporter)
	require.NoError(t, err)
	for name, sets := range map[string][2]*memstore.DB{"honor_labels": {&recorded.honored, &again.honored}, "exported_": {&recorded.plain, &again.plain}} {
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
func texts(d *memstore.DB) map[string][]uint64 {
	all := map[string][]uint64{}
	for _, name := range d.Names() {
		for _, one := range d.Named(name) {
			var points []uint64
			for _, p := range one.Points {
				points = append(points, uint64(p.T()), math.Float64bits(p.F()))
			}
			all[one.Labels.String()] = points
		}
	}
	return all
}
