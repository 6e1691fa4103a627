package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
)

// TestWaves: 200 pods that request 1 to 8 GPUs arrive in waves, and at most one
// hundredth more nodes are added than their GPUs need: each reconcile packs all
// of them again on the upcoming nodes. No pod is bound meanwhile, as where
// nodes take minutes to boot.
func TestWaves(t *testing.T) {
	const pods, bound = 200, 113
	for _, waves := range []int{1, 4, 8, 16} {
		for _, boot := range []struct {
			name string
			do   func(b *burst, wave int)
		}{
			{"no node comes", func(*burst, int) {}},
			{"objects come, not ready", func(b *burst, wave int) { b.register(b.due(wave, waves)) }},
			{"ready, not offering", func(b *burst, wave int) {
				b.register(b.due(wave, waves))
				for i := range b.Nodes {
					b.Nodes[i].Ready = true
				}
			}},
			{"half of them offer GPUs", func(b *burst, wave int) {
				b.register(b.due(wave, waves))
				b.offer(len(b.Nodes) / 2)
			}},
		} {
			t.Run(fmt.Sprintf("%d waves, %s", waves, boot.name), func(t *testing.T) {
				b := newBurst()
				for wave := range waves {
					for i := wave * pods / waves; i < (wave+1)*pods/waves; i++ {
						b.add(i)
					}
					b.reconcile(t)
					boot.do(b, wave)
				}
				b.reconcile(t)
				if got := b.Pools[0].Target; got > bound*101/100 {
					t.Errorf("%d nodes are added for %d pods, which need %d", got, pods, bound)
				}
			})
		}
	}
}

// burst is a pool that grows from nothing.
type burst struct {
	Snapshot
	policy Policy
}

var h100 = gpu.Model{Name: "H100-80GB", Vendor: "nvidia", MemoryMiB: 81559}

func newBurst() *burst {
	b := &burst{policy: DefaultPolicy()}
	b.policy.MaxNodesPerScaleUp, b.policy.MaxNodesPerHour = 10000, 10000
	b.Now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.Pools = []Pool{{Name: "p0", Max: 1000, PricePerHour: 90, ReadyAfter: time.Minute, IdleAfter: 10 * time.Minute,
		Template: Template{CPUMilli: 128000, MemoryMi: 2 << 20, GPUs: burstGPUs()}}}
	return b
}

func burstGPUs() []GPU {
	gpus := make([]GPU, 8)
	for i := range gpus {
		gpus[i] = GPU{Device: gpu.Device{Index: i, Model: h100}, AllocationKnown: true}
	}
	return gpus
}

// add adds the nth pod of the mix.
func (b *burst) add(n int) {
	gpus := n%8 + 1
	b.Pods = append(b.Pods, Pod{Namespace: "work", Name: fmt.Sprintf("burst-%05d", n), Demand: demand.Demand{GPUs: gpus, Vendor: "nvidia"},
		CPUMilli: int64(1000 * gpus), MemoryMi: int64(gpus) << 13, Unschedulable: true, Created: b.Now, PendingSince: b.Now})
}

// reconcile plans, and requests the nodes of the plan from the provider. A
// second passes.
func (b *burst) reconcile(t *testing.T) {
	t.Helper()
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	p := Make(b.Snapshot, b.policy)
	b.State = p.State
	for _, a := range p.Actions {
		if a.Verb == ScaleUp {
			b.Pools[0].Target = a.To
		}
	}
	b.Now = b.Now.Add(time.Second)
}

// due is how many of the requested nodes have come by a wave.
func (b *burst) due(wave, waves int) int {
	return (b.Pools[0].Target - b.Pools[0].Size) * (wave + 1) / waves
}

// register makes up to n Node objects that are not ready and offer nothing.
func (b *burst) register(n int) {
	p := &b.Pools[0]
	for range min(n, p.Target-p.Size) {
		b.Nodes = append(b.Nodes, Node{Name: fmt.Sprintf("n%04d", p.Size), Pool: p.Name, Created: b.Now, CPUMilli: 128000, MemoryMi: 2 << 20})
		p.Size++
	}
}

// offer makes the first n nodes ready, with their GPUs.
func (b *burst) offer(n int) {
	for i := range b.Nodes[:min(n, len(b.Nodes))] {
		if node := &b.Nodes[i]; len(node.GPUs) == 0 {
			node.Ready, node.GPUs = true, burstGPUs()
		}
	}
}
