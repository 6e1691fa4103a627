package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// subject is what a series speaks of: an entity, with the container that holds
// it alone where there is one.
type subject struct {
	entity *Entity
	labels *labelSet
	// dcgm are the labels under which a DCGM value stands: one set, or one for
	// each batch job on the entity. None where -d leaves the entity out.
	dcgm []*labelSet
	// holder is the only holder; the zero Holder where nobody holds the entity
	// or several share it. A shared value belongs to no pod: copying it to each
	// would count it twice.
	holder Holder
	// holders has one subject for each container that holds the entity.
	holders []subject
	hold    Hold // how holder holds it; of a subject in holders
	card    int  // index in Moment.subjects of the entity's card
	split   bool // a card with instances on it
	busy    ratio
	tally   *tally        // what has added up; not of a subject in holders
	idle    time.Duration // held and not computing; meaningful where busy is known
}

// ratio is 0 … 1 where it is known.
type ratio struct {
	value float64
	taken time.Time
	known bool
}

// Moment is a Reading joined with its holders and with what earlier readings
// left behind.
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
