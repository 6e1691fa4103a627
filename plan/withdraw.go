package plan

import "fmt"

// withdraw takes back what a pool's provider has not delivered: otherwise the
// nodes come when there is stock again, for demand that may be gone. The pool
// backs off first, and requests again what is then demanded.
func (w *world) withdraw() {
	for i := range w.pools {
		p := &w.pools[i]
		late := w.now.Sub(p.requestedAt)
		if p.Target <= p.Size || p.Fixed || late <= w.overdue(p) || !w.may(i) {
			continue
		}
		w.addAction(Action{
			Verb: Withdraw, Pool: p.Name, From: p.Target, To: p.Size, Reason: NotDelivered,
			Detail: fmt.Sprintf("%s requested %s ago did not register", count(p.Target-p.Size, "node"), short(late)),
		})
	}
}
