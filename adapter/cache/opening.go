package cache

// patience is how often in a row the history may fail before the plain query
// is tried.
const patience = 2

// opening chooses the first queries of a rule that starts or was idle. It tries
// the rule's history, repeatedly while Prometheus is down. If Prometheus
// answers the plain query and not the history, the rule goes without.
type opening struct {
	failures int
	up       bool // the plain query was answered: the history gets one more try
	over     bool
}

// history reports whether to send the rule's History and not its plain Query.
func (o *opening) history() bool {
	return !o.over && (o.up || o.failures%(patience+1) != patience)
}

// ended records the query's result. It returns true once, when the opening ends
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
