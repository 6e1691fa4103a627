package counters

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gpuscale/gpuscale/internal/text"
)

//go:embed fields.txt
var fieldsText string

type fieldTable struct {
	ids   map[string]uint16
	names map[uint16]string
	of    map[uint16]baseUnit
}

// baseUnit is an older field that a newer one repeats in its base unit. Only DCGM 4.7
// has all of the newer fields, so their values are made of the older ones, which every
// source has.
type baseUnit struct {
	id    uint16
	scale float64
}

// table reads the embedded list once; its lines are checked by a test.
var table = sync.OnceValue(func() fieldTable {
	t := fieldTable{ids: map[string]uint16{}, names: map[uint16]string{}, of: map[uint16]baseUnit{}}
	for line := range strings.Lines(fieldsText) {
		columns := strings.Fields(line)
		number, err := strconv.ParseUint(columns[0], 10, 16)
		if err != nil {
			continue // comments
		}
		id, name := uint16(number), columns[1]
		t.ids[name] = id
		if _, taken := t.names[id]; !taken {
			t.names[id] = name
		}
		if len(columns) == 5 {
			of, _ := strconv.ParseUint(columns[2], 10, 16)
			scale, _ := strconv.ParseFloat(columns[4], 64)
			if columns[3] == "/" {
				scale = 1 / scale
			}
			t.of[id] = baseUnit{uint16(of), scale}
		}
	}
	return t
})

// FieldID returns the DCGM field id of a name ("DCGM_FI_DEV_GPU_UTIL") or of a
// number in decimal ("203"), so that fields newer than this table can be asked
// for. It reports false for an unknown name.
func FieldID(name string) (uint16, bool) {
	if id, ok := table().ids[name]; ok {
		return id, true
	}
	id, err := strconv.ParseUint(name, 10, 16)
	return uint16(id), err == nil && id != 0
}

// FieldName returns DCGM's name of a field, or "DCGM_FI_<id>" where this table
// has none.
func FieldName(id uint16) string {
	if name, ok := table().names[id]; ok {
		return name
	}
	return "DCGM_FI_" + strconv.Itoa(int(id))
}

// nearest returns the known name that a mistyped one differs from least, or "" where nothing
// is close.
func nearest(name string) string {
	if len(name) > 2*len("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS") {
		return "" // too far for a typing error
	}
	best, least := "", len(name)/4+1
	names := slices.AppendSeq(slices.Collect(maps.Keys(table().ids)), maps.Keys(computedNames))
	for _, known := range slices.Sorted(slices.Values(names)) {
		if n := text.Distance(name, known); n < least {
			best, least = known, n
		}
	}
	return best
}
