package ledger

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// ConditionValid of a GPUQuota.
const ConditionValid = "Valid"

// Statuses returns the status of each GPUQuota after a snapshot, by name. Conditions that have not
// changed keep their times. problems are the Ledger's.
func Statuses(quotas []v1alpha1.GPUQuota, s *plan.Snapshot, problems map[string]error) map[string]v1alpha1.GPUQuotaStatus {
	if len(quotas) == 0 {
		return nil
	}
	use := usesOf(s)
	out := make(map[string]v1alpha1.GPUQuotaStatus, len(quotas))
	for i := range quotas {
		q := &quotas[i]
		status := *q.Status.DeepCopy()
		status.ObservedGeneration = q.Generation
		u := use.under(q.Name)
		status.Guaranteed, status.Used, status.Borrowed, status.Lent, status.Pending = text(u.Guaranteed), text(u.Used), text(u.Borrowed), text(u.Lent), text(u.Pending)
		valid := metav1.Condition{
			Type: ConditionValid, Status: metav1.ConditionTrue, Reason: "Valid", ObservedGeneration: q.Generation,
			LastTransitionTime: metav1.NewTime(s.Now),
		}
		if err := problems[quotaObject(q.Name)]; err != nil {
			valid.Status, valid.Reason, valid.Message = metav1.ConditionFalse, "Invalid", err.Error()
		}
		meta.SetStatusCondition(&status.Conditions, valid)
		out[q.Name] = status
	}
	return out
}

// uses is what tenants use and what their pending pods request.
type uses struct {
	used, pending quota.Tree
	tenants       map[string]plan.Tenant
	below         map[string][]string
}

// usesOf charges the pods that run, as the planner does.
func usesOf(s *plan.Snapshot) *uses {
	plain := make([]quota.Tenant, len(s.Tenants))
	for i, t := range s.Tenants {
		plain[i] = t.Tenant
	}
	tree, err := quota.NewTree(plain)
	if err != nil { // the Ledger's tree is valid
		return &uses{}
	}
	scale, memory := ScaleOf(s)
	used, pending := map[string]quota.Amount{}, map[string]quota.Amount{}
	for i := range s.Pods {
		p, of := &s.Pods[i], pending
		if p.Tenant == "" || !p.Charged(s.Now) {
			continue
		}
		if p.Node != "" {
			of = used
		}
		of[p.Tenant] = of[p.Tenant].Add(scale.Amount(&p.Demand, memory[p.Node]))
	}
	u := &uses{used: tree, pending: tree, tenants: map[string]plan.Tenant{}, below: map[string][]string{}}
	for _, t := range s.Tenants {
		u.tenants[t.Name] = t
		u.below[t.Parent] = append(u.below[t.Parent], t.Name)
		u.used, u.pending = u.used.Force(t.Name, used[t.Name]), u.pending.Force(t.Name, pending[t.Name])
	}
	return u
}

// ScaleOf returns the scale for requests on the GPUs of a snapshot. memory is, by node, the memory in MiB of a GPU that
// may be shared.
func ScaleOf(s *plan.Snapshot) (scale *plan.Scale, memory map[string]int) {
	memory = map[string]int{}
	var models []gpu.Model
	meet := func(m gpu.Model) {
		if !slices.Contains(models, m) {
			models = append(models, m)
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for j := range n.GPUs {
			c := &n.GPUs[j]
			meet(c.Model)
			if !c.MIG && memory[n.Name] == 0 {
				memory[n.Name] = c.Model.MemoryMiB
			}
		}
	}
	for i := range s.Pools {
		for j := range s.Pools[i].Template.GPUs {
			meet(s.Pools[i].Template.GPUs[j].Model)
		}
	}
	return plan.NewScale(s.Tables, models), memory
}

func (u *uses) under(name string) Share {
	t := u.tenants[name]
	guaranteed, used := u.used.Guaranteed(name), u.used.Total(name)
	var lent quota.Amount
	if t.Parent != "" { // others under its parent borrow what it leaves unused
		lent = u.taken(t.Parent, name).Min(guaranteed.Sub(used).Floor().Min(t.Lend))
	}
	out := Share{Tenant: name, Guaranteed: equivalents(guaranteed), Used: equivalents(used), Borrowed: equivalents(used.Sub(guaranteed).Floor()),
		Lent: equivalents(lent), Pending: equivalents(u.pending.Total(name))}
	if t.Name != "" && (t.Limit.Compute != quota.Unlimited || t.Limit.Memory != quota.Unlimited) {
		// The smaller of its shares, since either can run out first.
		out.Limit, out.Limited = min(float64(t.Limit.Compute)/computeSlices, float64(t.Limit.Memory)/memorySlices), true
	}
	return out
}

// taken is what the others under a parent use beyond their guarantees and the parent's own. Where
// several lend, each reports as much of it as it could have lent.
func (u *uses) taken(parent, but string) quota.Amount {
	var over quota.Amount
	for _, other := range u.below[parent] {
		if other != but {
			over = over.Add(u.used.Borrowed(other))
		}
	}
	return over.Sub(u.tenants[parent].Guarantee).Floor()
}

// Share is the share of a tenant and all under it, in GPU equivalents. Without Limited, Limit is
// not set.
type Share struct {
	Tenant                                    string
	Guaranteed, Used, Borrowed, Lent, Pending float64
	Limit                                     float64
	Limited                                   bool
}

// Shares returns the share of every tenant of a snapshot, in its order.
func Shares(s *plan.Snapshot) []Share {
	use := usesOf(s)
	out := make([]Share, 0, len(s.Tenants))
	for i := range s.Tenants {
		out = append(out, use.under(s.Tenants[i].Name))
	}
	return out
}

// equivalents converts an amount used or guaranteed: the larger of its shares.
func equivalents(a quota.Amount) float64 {
	if a.Compute == quota.Unlimited || a.Memory == quota.Unlimited {
		return Unlimited
	}
	return max(float64(a.Compute)/computeSlices, float64(a.Memory)/memorySlices)
}
