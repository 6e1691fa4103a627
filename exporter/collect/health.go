package collect

import (
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Words of gpu_healthy's reason label. A card condemned by an XID has "xid_79"
// and the like.
const (
	reasonOK       = "ok"
	reasonRowRemap = "row_remap_failure"
	reasonXID      = "xid_"
)

// condemning are the XIDs after which a card needs a reset or a technician,
// from NVIDIA's catalogue: 48 double-bit ECC, 62 and 169 micro-controller halt,
// 64 row remapping not recorded, 74 NVLink, 79 off the bus, 95 uncontained
// ECC, 119 and 120 GSP, 140 unrecovered ECC, 143 initialization. Others are an
// application's own doing.
func condemning(xid int) bool {
	switch xid {
	case 48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 169:
		return true
	}
	return false
}

// healthy has one series a card. A card that says neither XID nor remapping
// state has none: its health is not known.
func healthy() family {
	return family{desc: metric.GPUHealthy, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			s := &m.subjects[i]
			if s.entity.Kind != GPU {
				continue
			}
			if reason, taken, known := healthOf(m, s); known {
				ok := 0.0
				if reason == reasonOK {
					ok = 1
				}
				add(s.labels.with(d, metric.LabelReason, reason), ok, taken)
			}
		}
	}}
}

func healthOf(m *Moment, s *subject) (reason string, taken time.Time, known bool) {
	if v, ok := s.number(fieldXID); ok {
		// An XID is an event: its own time is when it happened, and it stays
		// true until the card is reset.
		reason, taken, known = reasonOK, m.taken, true
		if condemning(int(v.Number)) {
			return reasonXID + strconv.Itoa(int(v.Number)), taken, true
		}
	}
	if v, ok := s.number(fieldRowRemapFailure); ok {
		if v.Number != 0 {
			return reasonRowRemap, v.Time, true
		}
		if !known {
			reason, taken, known = reasonOK, v.Time, true
		}
	}
	return reason, taken, known
}
