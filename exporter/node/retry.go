package node

import "time"

// retryEvery is how soon a source that failed is tried again where it is read
// less often: one that is back is to be seen within ten seconds.
const retryEvery = 2 * time.Second

// next is when the next pass begins: at the tick, or sooner after a failure.
func (s *sampler) next(tick <-chan time.Time) <-chan time.Time {
	if s.failure() == nil || s.interval <= retryEvery {
		return tick
	}
	return time.After(retryEvery)
}
