package pools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/text"
)

const (
	// groupEvery bounds the age of a listing, as cluster-autoscaler's loop does: clouds throttle frequent calls.
	groupEvery = 10 * time.Second
	// groupTimeout bounds one call of a Provider method.
	groupTimeout = 10 * time.Second
)

// joinsWithin is how long a machine may take to join as a node after it is first seen. It is three times the pool's
// readyAfter if that is longer.
const joinsWithin = 30 * time.Minute

// maxWhy bounds a provider's reason, in bytes.
const maxWhy = 300

// Groups is the Provider of a cloud whose machines are in groups.
type Groups struct {
	// read reads a pool's group from the cloud. Its error is why the group must not be acted on.
	read func(context.Context, *v1alpha1.GPUNodePool) (*group, error)
	live client.Reader
	memo *memo
	// listing bounds a listing, for which a reconcile waits.
	listing time.Duration

	mu    sync.Mutex
	known map[string]map[string]known // by pool and machine
}

// known is what is remembered of a machine while it is listed: when it was seen first, and when it was deleted.
type known struct{ seen, deleted time.Time }

// deletedFor bounds how long a deleted machine counts as going although its provider lists it as before.
// cluster-autoscaler's provider for AWS (aws_manager.go at 1.36.1) answers from its last reading of the cloud, at least
// until the next Refresh. A second deletion would lower the size again that it keeps, and the next size that is set from
// it would be too small.
const deletedFor = 10 * time.Minute

// group is a cloud's group of machines.
type group struct {
	name                string // in messages
	target, least, most int
	keeps               bool // a replacement does not lower the size meanwhile
	exact               bool // machines are all that the size counts
	machines            []machine
	cloud               groupAPI
}

// machine of a group.
type machine struct {
	id     string // the node's providerID
	going  bool   // it is being deleted; the target does not count it
	apart  bool   // it stays, and the target does not count it
	failed string // why it could not be created
}

// made counts the machines that the size counts and that could be created.
func (g *group) made() (n int) {
	for _, m := range g.machines {
		if m.counts() {
			n++
		}
	}
	return n
}

// counts reports whether the size counts a machine and the machine could be created.
func (m machine) counts() bool { return m == machine{id: m.id} }

// groupAPI is what a cloud does with one group.
type groupAPI interface {
	// complete adds to a listing what only this cloud reports. missing is how many machines the group lacks.
	complete(ctx context.Context, l *Listing, missing int) error
	// raise sets a larger size.
	raise(ctx context.Context, size int) error
	// withdraw removes the absent machines, by their IDs, and those that could not be created, and lowers a larger size
	// to size. It removes no other machine.
	withdraw(ctx context.Context, size int, absent []string) error
	// remove removes the node's machine and lowers the size by it. With replace the size is the same afterwards; an
	// error that is errGone says that the machine is gone all the same.
	remove(ctx context.Context, node *corev1.Node, replace bool) error
}

// List implements Provider.
func (p *Groups) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error) {
	return p.memo.get(ctx, pool, func() (Listing, error) {
		ctx, cancel := context.WithTimeout(ctx, p.listing)
		defer cancel()
		g, err := p.group(ctx, pool)
		if err != nil {
			return Listing{}, err
		}
		out, missing := Listing{Target: g.target}, max(g.target-g.made(), 0)
		if g.exact {
			out.Counted = []string{}
		}
		for _, m := range g.machines {
			switch {
			case m.going || m.apart:
				out.Going = append(out.Going, LastPart(m.id))
			case g.exact:
				out.Counted = append(out.Counted, LastPart(m.id))
			}
			if m.failed != "" && out.Failed < missing { // of a request that is not withdrawn yet
				out.Failed, out.FailedWhy = out.Failed+1, text.Short(m.failed, maxWhy)
			}
		}
		err = g.cloud.complete(ctx, &out, missing)
		return out, err
	})
}

// write reads the pool's group and calls do with it at once: clouds have no conditional writes.
func (p *Groups) write(ctx context.Context, pool *v1alpha1.GPUNodePool, do func(context.Context, *group) error) error {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	defer p.memo.forget(pool)
	g, err := p.group(ctx, pool)
	if err != nil {
		return err
	}
	return do(ctx, g)
}

// group reads a pool's group, and notes which of its machines are new. Those that were deleted are going.
func (p *Groups) group(ctx context.Context, pool *v1alpha1.GPUNodePool) (*group, error) {
	g, err := p.read(ctx, pool)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, machines := p.memo.now(), map[string]known{}
	for i := range g.machines {
		m := &g.machines[i]
		k := p.known[pool.Name][m.id]
		k.seen = cmp.Or(k.seen, now)
		m.going = m.going || now.Sub(k.deleted) < deletedFor
		machines[m.id] = k
	}
	p.known[pool.Name] = machines
	return g, nil
}

// SetSize implements Provider.
func (p *Groups) SetSize(ctx context.Context, pool *v1alpha1.GPUNodePool, from, to int) error {
	return p.write(ctx, pool, func(ctx context.Context, g *group) error {
		due, err := grows(g.target, from, to)
		switch {
		case !due:
			return err
		case to > g.most:
			return &Problem{ReasonTarget, "spec.max",
				fmt.Sprintf("%d nodes are requested, the maximum of %s is %d", to, g.name, g.most), "raise it at the provider, or lower spec.max"}
		}
		return g.cloud.raise(ctx, to)
	})
}

// Delete implements Provider. A machine that is being deleted already is not deleted, and not counted, a second time.
func (p *Groups) Delete(ctx context.Context, pool *v1alpha1.GPUNodePool, node *corev1.Node, replace bool) error {
	if err := sameNode(ctx, p.live, pool, node); err != nil {
		return err
	}
	return p.write(ctx, pool, func(ctx context.Context, g *group) error {
		replace := replace && g.target <= int(pool.Spec.Max)
		at := slices.IndexFunc(g.machines, func(m machine) bool { return m.id == node.Spec.ProviderID })
		switch {
		case node.Spec.ProviderID == "" || at < 0:
			return fmt.Errorf("%w: %s has no machine %q", ErrUnnamed, g.name, node.Spec.ProviderID)
		case g.machines[at].going:
			return nil
		case g.machines[at].apart: // a smaller size would take another machine as well
			return fmt.Errorf("%w: the size of %s does not count machine %s", ErrUnnamed, g.name, node.Spec.ProviderID)
		case !replace && g.target <= int(pool.Spec.Min):
			return shrinks(g.target, int(pool.Spec.Min))
		case g.target <= g.least && !(replace && g.keeps):
			return &Problem{ReasonTarget, "spec.min",
				fmt.Sprintf("the minimum of %s is %d, and so is its size", g.name, g.least), "lower it at the provider, or raise spec.min to it"}
		}
		err := g.cloud.remove(ctx, node, replace)
		if err == nil || errors.Is(err, errGone) {
			p.mu.Lock()
			p.known[pool.Name][node.Spec.ProviderID] = known{p.known[pool.Name][node.Spec.ProviderID].seen, p.memo.now()}
			p.mu.Unlock()
		}
		return err
	})
}

// errGone is a removal whose machine is gone and whose replacement is not requested.
var errGone = errors.New("it is gone; requesting its replacement")

// Withdraw implements Provider. The size becomes the number of machines, without those that have had no node for too
// long. The error states why these are unknown.
func (p *Groups) Withdraw(ctx context.Context, pool *v1alpha1.GPUNodePool, from int) error {
	return p.write(ctx, pool, func(ctx context.Context, g *group) error {
		if g.target != from {
			return stale(g.target, from)
		}
		absent, unknown := p.absent(ctx, pool, g)
		if !g.keeps {
			absent = absent[:min(len(absent), max(g.target-g.least, 0))]
		}
		if size := max(g.made()-len(absent), g.least); g.target > size || len(absent) > 0 {
			if err := g.cloud.withdraw(ctx, size, absent); err != nil {
				return err
			}
		}
		return unknown
	})
}

// absent returns the machines that have not joined the cluster in time. It returns an error while any node has no
// providerID, or a node of the pool has one that no machine of the group has: that node may be of any of these
// machines.
func (p *Groups) absent(ctx context.Context, pool *v1alpha1.GPUNodePool, g *group) (out []string, err error) {
	within := max(joinsWithin, 3*ptr.Deref(pool.Spec.ReadyAfter, metav1.Duration{}).Duration)
	p.mu.Lock()
	for _, m := range g.machines {
		if m.counts() && p.memo.now().Sub(p.known[pool.Name][m.id].seen) > within {
			out = append(out, m.id)
		}
	}
	p.mu.Unlock()
	if len(out) == 0 {
		return nil, nil
	}
	var nodes corev1.NodeList
	if err := p.live.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var unknown []error
	for i := range nodes.Items {
		n := &nodes.Items[i]
		ours := slices.ContainsFunc(g.machines, func(m machine) bool { return m.id == n.Spec.ProviderID })
		out = slices.DeleteFunc(out, func(id string) bool { return id == n.Spec.ProviderID })
		switch {
		case n.Spec.ProviderID == "":
			unknown = append(unknown, fmt.Errorf("node %s has no providerID", n.Name))
		case n.Labels[v1alpha1.NodePoolLabel] == pool.Name && !ours:
			unknown = append(unknown, fmt.Errorf("node %s has providerID %q, which no machine of %s has", n.Name, n.Spec.ProviderID, g.name))
		}
	}
	if len(out) > 0 && len(unknown) > 0 {
		return nil, fmt.Errorf("machine %s has no node, or is that of one of %d nodes: %w; correct the providerID, or delete the node", out[0], len(unknown), unknown[0])
	}
	return out, nil
}
