package ledger

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// cover is one GPUQuota over a namespace.
type cover struct {
	quota string
	// pods of the namespace that it selects, nil for all.
	pods   labels.Selector
	models map[string]bool // that have a tenant of their own
}

// QuotaObject is the name of a GPUQuota in problems.
func QuotaObject(name string) string { return "GPUQuota " + name }

// ModelTenant is the tenant of a quota's amount for one model.
func ModelTenant(name, model string) string { return name + "/" + model }

func (l *Ledger) addQuotas(quotas []v1alpha1.GPUQuota) {
	// Of two quotas over the same pods the oldest holds.
	order := slices.SortedFunc(slices.Values(quotas), func(a, b v1alpha1.GPUQuota) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for i := range order {
		q := &order[i]
		if q.DeletionTimestamp != nil {
			continue
		}
		if until := "until then its amounts hold"; q.Undecodable != "" {
			if len(q.Spec.Amounts) == 0 {
				until = "until then nothing more is added for its pods"
			}
			l.problem(QuotaObject(q.Name), "the stored object does not have this version's schema: %s; apply it again: %s", q.Undecodable, until)
		}
		l.addCovers(q, l.addAmounts(q))
	}
}

// addAmounts adds a tenant for the amount of any model, and one under it for each model with an
// amount of its own.
func (l *Ledger) addAmounts(q *v1alpha1.GPUQuota) map[string]bool {
	all := quota.All()
	own := entry{of: QuotaObject(q.Name), Tenant: plan.Tenant{Tenant: quota.Tenant{
		Name: q.Name, Parent: q.Spec.Parent, Limit: all, Borrow: all, Lend: all,
	}}}
	if q.Undecodable != "" && len(q.Spec.Amounts) == 0 { // how much is unknown, and not unlimited
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
				l.problem(own.of, "spec.amounts[%d].model: %q is no product we know, so nothing counts towards it; want a product such as H100-80GB, or any", i, a.Model)
				continue
			}
			if models[model.Name] {
				l.problem(own.of, "spec.amounts[%d].model: %q occurs twice under different names, and the first holds; remove one of them", i, a.Model)
				continue
			}
			models[model.Name] = true
			e.Name, e.Parent = ModelTenant(q.Name, model.Name), q.Name
		}
		e.Guarantee = amountOf(a.Guaranteed, quota.Amount{})
		e.Limit, e.Borrow, e.Lend = amountOf(a.Limit, all), amountOf(a.BorrowLimit, all), amountOf(a.LendLimit, all)
		parts = append(parts, e)
	}
	if !slices.ContainsFunc(parts, func(e entry) bool { return e.Name == q.Name }) {
		parts = append(parts, own)
	}
	l.tenants = append(l.tenants, parts...)
	return models
}

// amountOf returns a number of GPU equivalents, otherwise if it is not set.
func amountOf(q *resource.Quantity, otherwise quota.Amount) quota.Amount {
	if q == nil {
		return otherwise
	}
	return gpus(q.AsApproximateFloat64())
}

// addCovers records the namespaces that a quota covers.
func (l *Ledger) addCovers(q *v1alpha1.GPUQuota, models map[string]bool) {
	of, spec := QuotaObject(q.Name), &q.Spec.Tenants
	c := cover{quota: q.Name, models: models}
	if spec.PodSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(spec.PodSelector)
		if err != nil {
			l.problem(of, "spec.tenants.podSelector: %w: all pods of the namespaces count towards the quota until this is fixed", err)
		} else {
			c.pods = selector
		}
	}
	over := map[string]bool{}
	for _, name := range spec.Namespaces {
		over[name] = true
	}
	if spec.NamespaceSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(spec.NamespaceSelector)
		if err != nil {
			l.problem(of, "spec.tenants.namespaceSelector: %w: it selects no namespace until this is fixed", err)
			selector = labels.Nothing()
		}
		for name, has := range l.namespaces {
			if selector.Matches(has) {
				over[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(over)) {
		l.cover(of, name, c)
	}
}

// cover adds a namespace to a quota, unless an older quota covers it already.
func (l *Ledger) cover(of, namespace string, c cover) {
	for _, had := range l.covers[namespace] {
		same := had.pods == nil && c.pods == nil || had.pods != nil && c.pods != nil && had.pods.String() == c.pods.String()
		if same {
			l.problem(of, "spec.tenants: namespace %s counts towards GPUQuota %s already, which is older and holds; remove it from one of them", namespace, had.quota)
			return
		}
	}
	l.covers[namespace] = append(l.covers[namespace], c)
}

func (l *Ledger) ofQuota(c Claim) string {
	of := func(over cover) bool { return over.pods != nil && over.pods.Matches(labels.Set(c.Labels)) }
	all := l.covers[c.Namespace]
	i := slices.IndexFunc(all, of)
	if i < 0 { // covers that select pods go before those of all pods
		i = slices.IndexFunc(all, func(over cover) bool { return over.pods == nil })
	}
	switch {
	case i < 0:
		return ""
	case all[i].models[c.Model]:
		return ModelTenant(all[i].quota, c.Model)
	}
	return all[i].quota
}
