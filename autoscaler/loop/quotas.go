package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
)

// quotasEvery is the least interval between writes of a quota's changed usage. Changed
// conditions are written at once.
const quotasEvery = 5 * time.Second

// quotas writes the status of every GPUQuota that changed.
func (p *ClusterPublisher) quotas(ctx context.Context, r Reconcile) error {
	next := ledger.Statuses(r.Quotas, &r.Snapshot, r.QuotaProblems)
	var errs []error
	for i := range r.Quotas {
		q := &r.Quotas[i]
		status := next[q.Name]
		key := "quota/" + q.Name
		if equality.Semantic.DeepEqual(q.Status, status) ||
			equality.Semantic.DeepEqual(q.Status.Conditions, status.Conditions) && r.Now.Sub(p.written[key]) < quotasEvery {
			continue
		}
		changed := q.DeepCopy()
		changed.Status = status
		if err := p.client.Status().Patch(ctx, changed, client.MergeFrom(&v1alpha1.GPUQuota{ObjectMeta: q.ObjectMeta, Spec: q.Spec, Status: q.Status})); err != nil {
			errs = append(errs, fmt.Errorf("quota %s: %w", q.Name, err))
			continue
		}
		p.written[key] = r.Now
	}
	return errors.Join(errs...)
}
