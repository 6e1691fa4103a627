package dcgm

import (
	"testing"
	"time"
)

// Goal: a Read of 8 cards × 7 instances within 5 ms and 8 cards within 1 ms,
// against the double, which samples in the same process. A Read is off the
// scrape path; at one a second 5 ms are 0.5 % of a core.
func BenchmarkRead(b *testing.B) {
	for name, instances := range map[string]int{"8cards": 0, "8cards_56instances": 7} {
		b.Run(name, func(b *testing.B) {
			m := newMachine(b, 8)
			for i := 0; instances > 0 && i < 8; i++ {
				m.cut(i, instances, "1g.10gb", 1, 1)
			}
			m.write()
			s := open(b, Options{})
			if err := s.Watch(defaults, 100*time.Millisecond); err != nil {
				b.Fatal(err)
			}
			if r := read(b, s); len(r.Entities) != 8*(1+instances) {
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
