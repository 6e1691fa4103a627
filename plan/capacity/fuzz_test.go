package capacity_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/capacity"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// words reads a fuzzer's bytes as numbers; zeros when they run out.
type words []byte

func (w *words) next(n int) uint64 {
	var b [8]byte
	*w = (*w)[copy(b[:n], *w):]
	return binary.LittleEndian.Uint64(b[:])
}

func (w *words) observation() capacity.Observation {
	o := capacity.Observation{At: time.Unix(int64(w.next(8))>>w.next(1)%64, int64(w.next(4)))}
	for range w.next(1) % 4 {
		c := capacity.Seen{Name: fmt.Sprint(w.next(1) % 8), Pool: fmt.Sprint(w.next(1) % 2), PricePerHour: math.Float64frombits(w.next(8))}
		for range w.next(1) % 4 {
			c.Parts = append(c.Parts, capacity.Piece{Shares: int(int16(w.next(2))), State: capacity.State(w.next(1) % 16),
				Namespace: fmt.Sprint(w.next(1)), Busy: sample.Known(math.Float64frombits(w.next(8)), 0)})
		}
		if w.next(1)%2 == 0 { // else hardly any card would be whole
			c.Parts = []capacity.Piece{{Shares: 300, State: capacity.State(w.next(1) % 10), Busy: sample.Known(math.Float64frombits(w.next(8)), 0)},
				{Shares: 540, State: capacity.Held, Namespace: fmt.Sprint(w.next(1)), Busy: sample.Known(float64(w.next(1))/200, 0)}}
		}
		o.Cards = append(o.Cards, c)
	}
	return o
}

// FuzzAdd: whatever comes, a ledger refuses it and stays as it is, or takes it and
// balances.
func FuzzAdd(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x00\x60\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l := capacity.NewLedger(capacity.LedgerOptions{MaxRows: 5, MaxGap: time.Duration(len(raw)) * time.Hour})
		for w := words(raw); len(w) > 0; {
			before := l.Totals()
			var err error
			if w.next(1)%4 == 0 {
				err = l.Advance(time.Unix(int64(w.next(8))>>w.next(1)%64, 0))
			} else {
				err = l.Add(w.observation())
			}
			after := l.Totals()
			if err != nil && !reflect.DeepEqual(before, after) {
				t.Fatalf("refused (%v), and yet changed", err)
			}
			if err := after.Check(); err != nil || after.Capacity < before.Capacity {
				t.Fatalf("%v; %s after %s", err, after.Capacity, before.Capacity)
			}
			if len(after.Rows) > 7 {
				t.Fatalf("%d rows", len(after.Rows))
			}
			_ = after.String() + after.By(capacity.Pool).String()
		}
	})
}

// FuzzSurvey: whatever a snapshot says, every card is whole.
func FuzzSurvey(f *testing.F) {
	f.Add("pool p max=1 gpus=2 model=H100-80GB layout=(3g.40gb@0:held=a/x 3g.40gb@4)\nnode n1 pool=p\npod a/x wants=3g.40gb node=n1\npod a/y wants=(gpu*2)")
	f.Add("pool p max=1 gpus=1 model=L40S no-mig memory-mib=7\nnode n1 pool=p\ngpu n1/0 holders=(a/x b/y)\npod a/x wants=(part:core=300:cards=9) node=n1\npod b/y wants=(part:memory=100) node=n1")
	f.Fuzz(func(t *testing.T, text string) {
		s, _, err := scenario.Parse(text)
		if err != nil {
			return
		}
		sv := capacity.NewSurvey(s, capacity.DefaultRules())
		checkSurvey(t, sv)
		_ = tables(sv)
		l := capacity.NewLedger(capacity.LedgerOptions{})
		if err := l.Add(sv.Observation()); err != nil && s.Check() == nil && s.Now.Year() >= 1970 && s.Now.Year() <= 9999 {
			t.Fatalf("a snapshot that is in order is refused: %v", err)
		}
	})
}

// BenchmarkAdd takes in 80,000 cards, once whole and once in seven instances of 200
// namespaces. Goal on two cores: 100 ms each.
func BenchmarkAdd(b *testing.B) {
	for _, parts := range []int{1, 7} {
		b.Run(fmt.Sprintf("parts=%d", parts), func(b *testing.B) {
			o := capacity.Observation{At: epoch, Cards: make([]capacity.Seen, 80000)}
			for i := range o.Cards {
				c := capacity.Seen{Name: fmt.Sprintf("n%05d/%d", i/8, i%8), Pool: fmt.Sprint("pool-", i%20), Model: "H100-80GB", PricePerHour: 2}
				for k := range parts {
					c.Parts = append(c.Parts, capacity.Piece{Shares: capacity.CardShares / parts, State: capacity.Held,
						Namespace: fmt.Sprint("team-", (i*7+k)%200), Busy: sample.Known(0.3, 0)})
				}
				o.Cards[i] = c
			}
			l := capacity.NewLedger(capacity.LedgerOptions{})
			b.ReportAllocs()
			for b.Loop() {
				o.At = o.At.Add(15 * time.Second)
				if err := l.Add(o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSurvey takes 10,000 nodes of 8 cards apart, a third of them free, with
// 200 kinds of pods pending that no free card serves: the worst case.
func BenchmarkSurvey(b *testing.B) {
	s := oneCard("H100-80GB", nil)
	model := s.Nodes[0].Cards[0].Model
	s.Nodes = nil
	for n := range 10000 {
		node := plan.Node{Name: fmt.Sprintf("n%05d", n), Ready: true, CPUMilli: 64000, Labels: map[string]string{"zone": fmt.Sprint(n % 3)}}
		for c := range 8 {
			card := plan.Card{HoldersKnown: true}
			card.Index, card.Model = c, model
			if c%3 > 0 {
				card.Holders = []string{fmt.Sprintf("a/x-%d-%d", n, c)}
			}
			node.Cards = append(node.Cards, card)
		}
		s.Nodes = append(s.Nodes, node)
	}
	for i := range 200 {
		p := plan.Pod{Namespace: "b", Name: fmt.Sprint("p-", i), CPUMilli: int64(i), NodeSelector: map[string]string{"zone": "nowhere"}}
		p.Demand.Cards = 1
		s.Pods = append(s.Pods, p)
	}
	b.ReportAllocs()
	for b.Loop() {
		sv := capacity.NewSurvey(s, capacity.DefaultRules())
		sv.Observation()
	}
}
