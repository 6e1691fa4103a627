package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// subject is what a series describes: an entity, with the container it is
// allocated to where there is exactly one.
type subject struct {
	entity *Entity
	labels *labelSet
	// dcgm are the labels under which a DCGM value stands: one set, or one for
	// each batch job on the entity. None where -d leaves the entity out.
	dcgm []*labelSet
	// allocation is the only one; zero where the entity is free or shared. A
	// shared value belongs to no pod: copying it to each would count it twice.
	allocation Allocation
	// allocations has one subject for each container the entity is allocated
	// to.
	allocations []subject
	usage       Usage // of allocation; of a subject in allocations
	device      int   // index in Moment.subjects of the entity's GPU
	split       bool  // a GPU with instances on it
	busy        ratio
	tally       *tally        // running totals; not of a subject in allocations
	idle        time.Duration // allocated and not computing; valid where busy is known
}

// ratio is 0 … 1 where it is known.
type ratio struct {
	value float64
	taken time.Time
	known bool
}

// Moment is a Reading joined with its allocations and with the totals of
// earlier readings.
type Moment struct {
	taken       time.Time
	attribution time.Time // zero where unknown
	subjects    []subject
	devices     []deviceSeries
	node        *labelSet // of series about the node itself
}

// number returns a numeric value of the entity.
func (s *subject) number(field uint16) (Value, bool) {
	v, ok := s.entity.Value(field)
	return v, ok && !v.IsText
}

// text returns the label text of d for this subject.
func (s *subject) text(d *metric.Desc) string { return s.labels.text(d) }
