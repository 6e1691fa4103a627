package capacity_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/capacity"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// FuzzSurvey: in any snapshot, the parts of every GPU add up.
func FuzzSurvey(f *testing.F) {
	f.Add("pool p max=1 gpus=2 model=H100-80GB layout=(3g.40gb@0:allocated-to=a/x 3g.40gb@4)\nnode n1 pool=p\npod a/x requests=3g.40gb node=n1\npod a/y requests=(gpu*2)")
	f.Add("pool p max=1 gpus=1 model=L40S no-mig memory-mib=7\nnode n1 pool=p\ngpu n1/0 allocated-to=(a/x b/y)\npod a/x requests=(part:core=300:gpus=9) node=n1\npod b/y requests=(part:memory=100) node=n1")
	f.Fuzz(func(t *testing.T, text string) {
		s, _, err := scenario.Parse(text)
		if err != nil {
			return
		}
		sv := capacity.NewSurvey(s, capacity.DefaultRules())
		checkSurvey(t, sv)
		l := capacity.NewLedger(capacity.LedgerOptions{})
		if err := l.Add(sv.Observation()); err != nil && s.Check() == nil && s.Now.Year() >= 1970 && s.Now.Year() <= 9999 {
			t.Fatalf("a snapshot that is in order is refused: %v", err)
		}
	})
}

// BenchmarkAdd adds observations of 80,000 GPUs, once whole and once in seven
// instances of 200 namespaces. Goal on two cores: 100 ms each.
func BenchmarkAdd(b *testing.B) {
	for _, parts := range []int{1, 7} {
		b.Run(fmt.Sprintf("parts=%d", parts), func(b *testing.B) {
			o := capacity.Observation{At: epoch, GPUs: make([]capacity.Seen, 80000)}
			for i := range o.GPUs {
				c := capacity.Seen{Name: fmt.Sprintf("n%05d/%d", i/8, i%8), Pool: fmt.Sprint("pool-", i%20), Model: "H100-80GB"}
				for k := range parts {
					c.Parts = append(c.Parts, capacity.Piece{Shares: capacity.GPUShares / parts, State: capacity.Allocated,
						Namespace: fmt.Sprint("team-", (i*7+k)%200), Busy: sample.Known(0.3, 0)})
				}
				o.GPUs[i] = c
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

// BenchmarkSurvey surveys 10,000 nodes of 8 GPUs, a third of them free, with
// 200 kinds of pending pods that no free GPU serves: the worst case.
func BenchmarkSurvey(b *testing.B) {
	s := oneGPU("H100-80GB", nil)
	model := s.Nodes[0].GPUs[0].Model
	s.Nodes = nil
	for n := range 10000 {
		node := plan.Node{Name: fmt.Sprintf("n%05d", n), Ready: true, CPUMilli: 64000, Labels: map[string]string{"zone": fmt.Sprint(n % 3)}}
		for c := range 8 {
			device := plan.GPU{AllocationKnown: true}
			device.Index, device.Model = c, model
			if c%3 > 0 {
				device.AllocatedTo = []string{fmt.Sprintf("a/x-%d-%d", n, c)}
			}
			node.GPUs = append(node.GPUs, device)
		}
		s.Nodes = append(s.Nodes, node)
	}
	for i := range 200 {
		p := plan.Pod{Namespace: "b", Name: fmt.Sprint("p-", i), CPUMilli: int64(i), NodeSelector: map[string]string{"zone": "nowhere"}}
		p.Demand.GPUs = 1
		s.Pods = append(s.Pods, p)
	}
	b.ReportAllocs()
	for b.Loop() {
		sv := capacity.NewSurvey(s, capacity.DefaultRules())
		sv.Observation()
	}
}
