package collect

// CardHealth is what a reading tells of one card's health.
type CardHealth struct {
	GPU    int
	UUID   string
	Known  bool   // false: nothing is told that bears on it
	Reason string // as gpu_healthy has it; "ok" where it is healthy
}

// Healthy reports whether the card is known to be healthy.
func (h CardHealth) Healthy() bool { return h.Known && h.Reason == reasonOK }

// Health returns the health of each card of a reading, as gpu_healthy has it.
func Health(r *Reading) []CardHealth {
	var out []CardHealth
	m := &Moment{taken: r.Taken}
	for i := range r.Entities {
		if e := &r.Entities[i]; e.Kind == GPU {
			reason, _, known := healthOf(m, &subject{entity: e})
			out = append(out, CardHealth{GPU: e.GPU, UUID: e.UUID, Known: known, Reason: reason})
		}
	}
	return out
}
