package ledger

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/gangs"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// cover is one GPUQuota over a namespace.
type cover struct {
	quota  string
	pods   labels.Selector // selects pods of the namespace
	models map[string]bool // models with a tenant of their own
}

// quotaObject is the name of a GPUQuota in problems.
func quotaObject(name string) string { return "GPUQuota " + name }

// modelTenant is the tenant of a quota's amount for one model.
func modelTenant(name, model string) string { return name + "/" + model }

func (l *Ledger) addQuotas(quotas []v1alpha1.GPUQuota, namespaces []corev1.Namespace) {
	// Of two quotas over the same pods the oldest holds.
	order := slices.SortedFunc(slices.Values(quotas), func(a, b v1alpha1.GPUQuota) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for i := range order {
		q := &order[i]
		if q.DeletionTimestamp != nil {
			continue
		}
		if until := "until then its amounts stay in force"; q.Undecodable != "" {
			if len(q.Spec.Amounts) == 0 {
				until = "until then nothing more is added for its pods"
			}
			l.problem(quotaObject(q.Name), "the stored object does not have this version's schema: %s; apply it again: %s", q.Undecodable, until)
		}
		l.addCovers(q, l.addAmounts(q), namespaces)
	}
}

// addAmounts adds a tenant for the amount of any model, and one under it for each model with an
// amount of its own.
func (l *Ledger) addAmounts(q *v1alpha1.GPUQuota) map[string]bool {
	all := quota.All()
	own := entry{of: quotaObject(q.Name), Tenant: plan.Tenant{Tenant: unbounded(q.Name)}}
	own.Parent = q.Spec.Parent
	if q.Undecodable != "" && len(q.Spec.Amounts) == 0 { // the amounts are unknown, not unlimited
		own.Limit = quota.Amount{}
	}
	if q.Spec.ReclaimIdle != nil {
		own.ReclaimIdle = max(q.Spec.ReclaimIdle.Duration, 0)
	}
	models := map[string]bool{}
	var parts []entry
	for i := range q.Spec.Amounts {
		a := &q.Spec.Amounts[i]
		e := own
		if a.Model != v1alpha1.AnyModel && a.Model != "" {
			model, ok := gpu.ParseProduct(a.Model)
			if !ok {
				l.problem(own.of, "spec.amounts[%d].model: %q is not a known product, so nothing counts towards it; want a product such as H100-80GB, or any", i, a.Model)
				continue
			}
			if models[model.Name] {
				l.problem(own.of, "spec.amounts[%d].model: %q occurs twice under different names, and the first one applies; remove one of them", i, a.Model)
				continue
			}
			models[model.Name] = true
			e.Name, e.Parent = modelTenant(q.Name, model.Name), q.Name
		}
		e.Guarantee = amountOf(a.Guaranteed, quota.Amount{})
		e.Limit, e.Borrow, e.Lend = amountOf(a.Limit, all), amountOf(a.BorrowLimit, all), amountOf(a.LendLimit, all)
		parts = append(parts, e)
	}
	if !slices.ContainsFunc(parts, func(e entry) bool { return e.Name == q.Name }) {
		parts = append(parts, own)
	}
	l.entries = append(l.entries, parts...)
	return models
}

// amountOf returns a number of GPU equivalents, otherwise if it is not set.
func amountOf(q *resource.Quantity, otherwise quota.Amount) quota.Amount {
	if q == nil {
		return otherwise
	}
	return times(wholeGPU, ptr.To(q.AsApproximateFloat64()), otherwise)
}

// addCovers records the namespaces that a quota covers, unless an older one covers the same pods of them.
func (l *Ledger) addCovers(q *v1alpha1.GPUQuota, models map[string]bool, namespaces []corev1.Namespace) {
	of, spec := quotaObject(q.Name), &q.Spec.Tenants
	c := cover{q.Name, labels.Everything(), models}
	if spec.PodSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(spec.PodSelector)
		if err != nil {
			l.problem(of, "spec.tenants.podSelector: %w: all pods of the namespaces count towards the quota until this is fixed", err)
		} else {
			c.pods = selector
		}
	}
	over := slices.Clone(spec.Namespaces)
	if spec.NamespaceSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(spec.NamespaceSelector)
		if err != nil {
			l.problem(of, "spec.tenants.namespaceSelector: %w: it selects no namespace until this is fixed", err)
			selector = labels.Nothing()
		}
		for i := range namespaces {
			if selector.Matches(labels.Set(namespaces[i].Labels)) {
				over = append(over, namespaces[i].Name)
			}
		}
	}
	slices.Sort(over)
	for _, name := range slices.Compact(over) {
		if i := slices.IndexFunc(l.covers[name], func(had cover) bool { return had.pods.String() == c.pods.String() }); i >= 0 {
			l.problem(of, "spec.tenants: namespace %s counts towards GPUQuota %s already, which is older, so that one applies; remove it from one of them", name, l.covers[name][i].quota)
		} else {
			l.covers[name] = append(l.covers[name], c)
		}
	}
}

// ofQuota returns the tenant of the GPUQuota over a pod, empty for none. A quota whose podSelector matches goes
// before one over all pods.
func (l *Ledger) ofQuota(p *gangs.Pod, model func() string) string {
	all := l.covers[p.Namespace]
	i := slices.IndexFunc(all, func(over cover) bool { return !over.pods.Empty() && over.pods.Matches(labels.Set(p.Labels)) })
	if i < 0 {
		i = slices.IndexFunc(all, func(over cover) bool { return over.pods.Empty() })
	}
	if i < 0 {
		return ""
	}
	if of := all[i]; len(of.models) > 0 {
		if name := model(); of.models[name] {
			return modelTenant(of.quota, name)
		}
	}
	return all[i].quota
}
