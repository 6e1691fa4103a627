package dcgm

import (
	"fmt"
	"testing"
	"time"
)

// Goal: a Read of 8 cards × 7 instances within 5 ms and 8 cards within 1 ms,
// against the double, which samples in the same process or, remote, in another
// one over TCP. A Read is off the scrape path; at one a second 5 ms are 0.5 % of
// a core.
func BenchmarkRead(b *testing.B) {
	for _, size := range []struct{ cards, instances int }{{8, 0}, {8, 7}} {
		for _, mode := range []string{"embedded", "remote"} {
			b.Run(fmt.Sprintf("%dx%d/%s", size.cards, size.instances, mode), func(b *testing.B) {
				m := newMachine(b, size.cards)
				for i := 0; size.instances > 0 && i < size.cards; i++ {
					m.cut(i, size.instances, "1g.10gb", 1, 1)
				}
				m.write()
				o := Options{}
				if mode == "remote" {
					o.Mode, o.Address = Remote, m.engine("127.0.0.1:0").Address
				}
				s := open(b, o)
				if err := s.Watch(defaults, 100*time.Millisecond); err != nil {
					b.Fatal(err)
				}
				if r := read(b, s); len(r.Entities) != size.cards*(1+size.instances) {
					b.Fatalf("%d entities", len(r.Entities))
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Read(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
