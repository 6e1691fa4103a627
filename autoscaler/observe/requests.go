package observe

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/gangs"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// Request is a ProvisioningRequest.
type Request struct {
	*foreign.Object
	// Owner and Gang are those of its pods in the Snapshot; ByKueue: of the Workload that it is made for.
	Owner, Gang string
	ByKueue     bool
	// Consumers are the pods that say that they use it, "namespace/name".
	Consumers map[string]bool
	// Check are the pods of a request that adds no node. They are not in the Snapshot.
	Check []plan.Pod
}

// maxChecked bounds the pods of a check.
const maxChecked = 1000

// Has reports whether a pod is one of the request's.
func (r *Request) Has(p *plan.Pod) bool {
	return p.Namespace == r.Namespace && (p.Owner == r.Owner || p.Gang == r.Gang) || r.Consumers[p.Key()]
}

// requests returns the ProvisioningRequests.
func (v *converter) requests() []Request {
	var out []Request
	consumers := map[string]map[string]bool{} // by request
	if len(v.c.foreign[foreign.ProvisioningRequest]) > 0 {
		for _, p := range v.c.pods {
			if name := p.Annotations[gangs.ConsumesAnnotation]; name != "" && !kube.IsOver(p) {
				key := p.Namespace + "/" + name
				if consumers[key] == nil {
					consumers[key] = map[string]bool{}
				}
				consumers[key][p.Namespace+"/"+p.Name] = true
			}
		}
	}
	for _, o := range v.c.foreign[foreign.ProvisioningRequest] {
		r := Request{Object: o, Consumers: consumers[o.Namespace+"/"+o.Name]}
		kind, name := foreign.ProvisioningRequest, o.Name
		if workload := foreign.MadeFor(o); workload != "" {
			kind, name, r.ByKueue = foreign.KueueWorkload, workload, true
		}
		r.Owner, r.Gang = gangs.NamesOf(kind, o.Namespace, name)
		if o.Request.Class == foreign.CheckCapacity && !r.ByKueue && o.Request.Missing == "" {
			r.Check = v.checked(o, r.Gang)
		}
		out = append(out, r)
	}
	return out
}

// checked returns the pods of a request as pods still to be created, together.
func (v *converter) checked(o *foreign.Object, gang string) []plan.Pod {
	var out []plan.Pod
	for i := range o.Maker.Roles {
		role := &o.Maker.Roles[i]
		p := v.template(o.Namespace, &role.Template)
		if p.Demand.Zero() && p.Unreadable == "" {
			continue
		}
		p.Namespace, p.Created, p.PendingSince = o.Namespace, o.CreationTimestamp.Time, o.CreationTimestamp.Time
		p.Unmade, p.Unschedulable, p.Evictable = true, true, true
		p.Groups = v.rules.in(o.Namespace, role.Template.Labels)
		p.Tenant = v.tenant(p, &role.Template)
		for n := 0; n < role.Count && len(out) < maxChecked; n++ {
			p.Name = fmt.Sprintf("%s-%s~%d", o.Name, role.Name, n)
			out = append(out, p)
		}
	}
	if len(out) > 1 {
		for i := range out {
			out[i].Gang, out[i].GangMin = gang, len(out)
		}
	}
	return out
}

func (v *converter) tenant(p plan.Pod, t *corev1.PodTemplateSpec) string {
	return v.c.ledger.Tenant(claimOf(p, v.c.models, t.Labels, t.Annotations, t.Spec.SchedulerName, "", ""))
}
