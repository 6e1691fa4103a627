package pools

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Fixed is for machines that nobody makes. A pool of it has the nodes that carry its
// label, and it writes to nobody: that nothing is asked of it is the planner's to
// see to; that nothing would come of it is seen to here.
type Fixed struct {
	nodes client.Reader
}

// NewFixed returns the provider. It only reads, and a cache will do.
func NewFixed(nodes client.Reader) *Fixed { return &Fixed{nodes: nodes} }

// List implements Provider. The size that is asked for is the one there is.
func (f *Fixed) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (Listing, error) {
	names, err := namesOf(ctx, f.nodes, pool)
	return Listing{Target: len(names)}, err
}

// Template implements Provider. No node is made of it: it says whether a pod would
// fit, and what a node has that does not show its cards yet.
func (f *Fixed) Template(pool *v1alpha1.GPUNodePool, tables mig.Tables) (plan.Template, error) {
	return templateOf(pool, tables)
}

// SetSize implements Provider. The error is ErrFixed.
func (f *Fixed) SetSize(_ context.Context, pool *v1alpha1.GPUNodePool, size int) error {
	return fmt.Errorf("asking for %d nodes of pool %s: %w", size, pool.Name, ErrFixed)
}

// Delete implements Provider. The error is ErrFixed.
func (f *Fixed) Delete(_ context.Context, pool *v1alpha1.GPUNodePool, nodes []*corev1.Node) error {
	if len(nodes) == 0 {
		return nil
	}
	return fmt.Errorf("removing node %s of pool %s: %w", nodes[0].Name, pool.Name, ErrFixed)
}
