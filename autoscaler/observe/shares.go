package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
)

// shares are the objects that limit tenants, and the defaults that pods are created with.
type shares struct {
	namespaces     []corev1.Namespace
	ranges         []corev1.LimitRange
	resourceQuotas []corev1.ResourceQuota
	classes        []schedulingv1.PriorityClass
	hpas           []autoscalingv2.HorizontalPodAutoscaler
	quotas         []v1alpha1.GPUQuota
	foreign        foreign.Objects
	ledger         *ledger.Ledger
}

// share adds quotas to the Snapshot.
func (o *Observer) share(c *cluster, out *Observation) {
	c.ledger = ledger.New(ledger.Input{
		Quotas: c.quotas, ResourceQuotas: c.resourceQuotas, Namespaces: c.namespaces, Objects: c.foreign,
		Models: slices.Collect(maps.Values(c.models)), Tables: out.Tables, Shares: c.most,
	})
	out.Tenants, out.Quotas, out.QuotaProblems = c.ledger.Tenants, c.quotas, c.ledger.Problems
	o.warnForeign(c)
}

// readShares lists the objects of shares.
func (o *Observer) readShares(ctx context.Context, c *cluster) error {
	var namespaces corev1.NamespaceList
	var ranges corev1.LimitRangeList
	var resourceQuotas corev1.ResourceQuotaList
	var classes schedulingv1.PriorityClassList
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	var quotas v1alpha1.GPUQuotaList
	for what, list := range map[string]client.ObjectList{
		"namespaces": &namespaces, "LimitRanges": &ranges, "ResourceQuotas": &resourceQuotas,
		"PriorityClasses": &classes, "HorizontalPodAutoscalers": &hpas, "GPUQuotas": &quotas,
	} {
		// A cluster without the GPUQuota CRD has none.
		if err := o.o.Cluster.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("listing %s: %w", what, err)
		}
	}
	c.namespaces, c.ranges, c.resourceQuotas = namespaces.Items, ranges.Items, resourceQuotas.Items
	c.classes, c.hpas, c.quotas = classes.Items, hpas.Items, quotas.Items
	objects, err := o.o.Foreign()
	if err != nil {
		return fmt.Errorf("reading gangs and queues: %w", err)
	}
	c.foreign = objects
	return nil
}

// warn logs the problem of a subject when it changes.
func (o *Observer) warn(subject string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if o.warned[subject] == text {
		return
	}
	o.warned[subject] = text
	if err != nil {
		o.o.Log.Warn("invalid input", "what", subject, "err", err)
	}
}

// warnForeign logs which objects of other projects' APIs cannot be read, and which of their quotas
// are invalid: they have no status field for our conditions.
func (o *Observer) warnForeign(c *cluster) {
	var errs []error
	for _, objects := range c.foreign {
		for _, object := range objects {
			if object.Err != nil {
				errs = append(errs, object.Err)
			}
		}
	}
	for of, err := range c.ledger.Problems {
		errs = append(errs, fmt.Errorf("%s: %w", of, err))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	o.warn("gangs and quotas", few(errs))
}

// few joins at most the first of many problems.
func few(errs []error) error {
	const most = 10
	return errors.Join(errs[:min(len(errs), most)]...)
}
