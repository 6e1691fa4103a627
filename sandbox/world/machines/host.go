package machines

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/world/device"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// measureEvery is the interval at which a state file is written; DCGM samples at the same interval.
const measureEvery = 500 * time.Millisecond

// host is one machine.
type host struct {
	opts   *Options
	name   string
	uid    types.UID
	pool   story.Pool
	layout story.Layout
	dir    string
	bootAt time.Time

	agent    *node.Agent // nil before the boot
	bench    *device.Bench
	kubelet  *node.Kubelet
	measured time.Time
	address  string // of the exporter; it keeps it while it is paused
	end      func() // stops the exporter; nil while it does not run
}

func (h *host) step(ctx context.Context, n *corev1.Node, pods []*corev1.Pod, config []byte, now time.Time) error {
	if now.Before(h.bootAt) {
		return nil
	}
	if h.agent == nil {
		if err := h.boot(ctx, n, now); err != nil {
			h.stop()
			return fmt.Errorf("booting %s: %w", h.name, err)
		}
	}
	if now.Sub(h.measured) >= measureEvery {
		if err := h.measure(now); err != nil {
			return fmt.Errorf("measuring %s: %w", h.name, err)
		}
	}
	if err := h.follow(n); err != nil {
		return err
	}
	return h.agent.Step(ctx, n, pods, config, now)
}

// follow starts and stops the exporter by the node's labels, as a DaemonSet does: mig-manager pauses it while
// it changes a GPU.
func (h *host) follow(n *corev1.Node) error {
	switch paused := node.ExporterPaused(n.Labels); {
	case paused && h.end != nil:
		h.end()
		h.end = nil
		h.opts.Log.Info("exporter ended for a MIG change", "node", h.name)
	case !paused && h.end == nil:
		var err error
		if h.address, h.end, err = h.opts.Start(Exporter{Node: h.name, Socket: h.socket(), State: h.state()}); err != nil {
			h.end = nil
			return fmt.Errorf("starting the exporter of %s: %w", h.name, err)
		}
	}
	h.agent.Lock.Lock()
	defer h.agent.Lock.Unlock()
	h.agent.Machine.SetExporter(h.end != nil)
	return nil
}

// boot starts the host software in the order of a real machine: hardware, kubelet, then what runs as pods.
func (h *host) boot(ctx context.Context, n *corev1.Node, now time.Time) error {
	layouts, err := story.Place(h.pool.Product, h.pool.GPUs, h.layout)
	if err != nil {
		return err
	}
	m, err := node.New(node.Spec{
		Name: h.name, Product: h.pool.Product, GPUs: h.pool.GPUs, Layouts: layouts, Delays: node.DefaultDelays(),
	}, now)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return fmt.Errorf("making its folder: %w", err)
	}
	h.agent = node.NewAgent(m, h.opts.Client, h.opts.Log)
	h.bench = device.NewBench(now)
	if err := h.measure(now); err != nil {
		return err
	}
	if h.kubelet, err = node.Listen(h.socket(), m, &h.agent.Lock); err != nil {
		return err
	}
	if err := h.agent.Join(ctx); err != nil {
		return err
	}
	if err := h.follow(n); err != nil {
		return err
	}
	h.opts.Log.Info("machine up", "node", h.name)
	return nil
}

func (h *host) socket() string { return filepath.Join(h.dir, "kubelet.sock") }
func (h *host) state() string  { return filepath.Join(h.dir, "dcgm.state") }

// measure writes the state of the GPUs for the DCGM fake.
func (h *host) measure(now time.Time) error {
	h.measured = now
	h.agent.Lock.Lock()
	loads := h.opts.Loads(h.agent.Machine.Holdings(), now)
	state := h.bench.Measure(h.agent.Machine, loads, now)
	h.agent.Lock.Unlock()
	return state.Write(h.state())
}

// stop stops everything in reverse order. The machine can boot again.
func (h *host) stop() {
	if h.end != nil {
		h.end()
	}
	if h.kubelet != nil {
		h.kubelet.Stop()
	}
	_ = os.RemoveAll(h.dir) // the sandbox's folder is removed at the end anyway
	h.agent, h.bench, h.kubelet, h.address, h.end = nil, nil, nil, "", nil
}
