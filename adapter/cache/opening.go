package cache

// patience is how often in a row the history is asked for in vain before the
// plain query is tried.
const patience = 2

// opening chooses the queries with which a rule begins that nobody has
// watched. It asks for the rule's history, again and again while Prometheus is
// down; but a history that is too much for a Prometheus which answers the
// plain query is done without.
type opening struct {
	failures int
	up       bool // the plain query was answered: the history gets one more try
	over     bool
}

// history says which query to send: the rule's History or its plain Query.
func (o *opening) history() bool {
	return !o.over && (o.up || o.failures%(patience+1) != patience)
}

// ended takes how that query went. It returns true once, when the opening ends
// without a history.
func (o *opening) ended(history bool, err error) (blind bool) {
	switch {
	case o.over:
	case err == nil && history:
		o.over = true
	case err == nil:
		o.up = true
	case o.up:
		o.over, blind = true, true
	default:
		o.failures++
	}
	return blind
}
