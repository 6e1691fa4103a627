package replay

import "math/rand/v2"

// arrivals is the order in which pods come, as indices into w.requests: the
// list shuffled with the seed, then pods drawn from it at random, until their
// requests reach inflation times the capacity.
func (w *World) arrivals(seed int, inflation float64) []int {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	order := r.Perm(len(w.requests))
	until := inflation * float64(w.capacity)
	sum := 0
	for i := 0; float64(sum) < until; i++ {
		if i == len(order) {
			order = append(order, r.IntN(len(w.requests)))
		}
		sum += w.sizes[order[i]]
		if float64(sum) >= until {
			return order[:i+1]
		}
	}
	return nil
}
