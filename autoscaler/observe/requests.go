package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/gangs"
	"github.com/gpuscale/gpuscale/plan"
)

// Request is a ProvisioningRequest.
type Request struct {
	*foreign.Object
	// Owner and Gang are those of its pods in the Snapshot. With ByKueue they are those of the Workload that the
	// request is made for.
	Owner, Gang string
	ByKueue     bool
	// Consumers are the pods whose annotation names the request, Members the existing pods of that Workload; both as
	// "namespace/name".
	Consumers, Members map[string]bool
	// Check are the pods of a request that adds no node and is not settled. They are not in the Snapshot.
	Check []plan.Pod
	// Booked are the same pods once capacity was found for them, until pods use it or it is no longer kept.
	Booked []plan.Pod
}

// maxChecked bounds the pods of a check.
const maxChecked = 1000

// Has reports whether a pod is one of the request's.
func (r *Request) Has(p *plan.Pod) bool {
	return p.Namespace == r.Namespace && (p.Owner == r.Owner || p.Gang == r.Gang) || r.Consumers[p.Key()] || r.Members[p.Key()]
}

// requests returns the ProvisioningRequests.
func (c *cluster) requests() []Request {
	var out []Request
	for _, o := range c.foreign[foreign.ProvisioningRequest] {
		r := Request{Object: o, Consumers: c.consumers[o.Namespace+"/"+o.Name]}
		kind, name := foreign.ProvisioningRequest, o.Name
		if workload := foreign.MadeFor(o); workload != "" {
			kind, name, r.ByKueue = foreign.KueueWorkload, workload, true
			r.Members = c.members[o.Namespace+"/"+workload]
		}
		r.Owner, r.Gang = gangs.NamesOf(kind, o.Namespace, name)
		switch {
		case o.Request.Class != foreign.CheckCapacity || r.ByKueue || o.Request.Missing != "":
		case !o.Request.Settled():
			r.Check = c.checked(o, r.Gang)
		case !o.Maker.Over && len(r.Consumers) == 0:
			r.Booked = c.checked(o, "")
			for i := range r.Booked { // no node is added for them
				r.Booked[i].Unschedulable = false
			}
		}
		out = append(out, r)
	}
	return out
}

// checked returns the pods of a request as pods still to be created, as members of the gang unless it is empty.
func (c *cluster) checked(o *foreign.Object, gang string) []plan.Pod {
	var out []plan.Pod
	for i := range o.Maker.Roles {
		role := &o.Maker.Roles[i]
		p, made := c.template(o.Namespace, &role.Template)
		if p.Demand.Zero() && p.Unreadable == "" {
			continue
		}
		p.Namespace, p.Created, p.PendingSince = o.Namespace, o.CreationTimestamp.Time, o.CreationTimestamp.Time
		p.Unmade, p.Unschedulable, p.Evictable = true, true, true
		p.Groups, p.Tenant = c.rules.in(o.Namespace, made.Labels), c.tenant(&gangs.Pod{Pod: made, Plan: &p})
		for n := 0; n < role.Count && len(out) < maxChecked; n++ {
			p.Name = fmt.Sprintf("%s-%s~%d", o.Name, role.Name, n)
			out = append(out, p)
		}
	}
	if len(out) > 1 && gang != "" {
		for i := range out {
			out[i].Gang, out[i].GangMin = gang, len(out)
		}
	}
	return out
}

// hpas returns the HPAs whose target's pods request GPUs, by namespace and name. A target without
// pods is judged by its template. The result is cached per object, since there may be thousands
// that request none.
func (o *Observer) hpas(c *cluster, pods []plan.Pod) []*autoscalingv2.HorizontalPodAutoscaler {
	wanting := map[string]bool{}
	for i := range pods {
		if p := &pods[i]; !p.Demand.Zero() && p.Owner != "" {
			wanting[p.Namespace+"/"+p.Owner] = true
		}
	}
	o.requesting.begin(c.claims)
	var out []*autoscalingv2.HorizontalPodAutoscaler
	for i := range c.hpas.Items {
		h := &c.hpas.Items[i]
		ref := h.Spec.ScaleTargetRef
		requests := wanting[h.Namespace+"/"+ref.Kind+"/"+ref.Name]
		if object := c.workload(Series{Namespace: h.Namespace, Kind: ref.Kind, Name: ref.Name}); !requests && object != nil {
			requests = *o.requesting.get(object, func() bool {
				like, _ := c.template(h.Namespace, &object.Maker.Roles[0].Template)
				return !like.Demand.Zero()
			})
		}
		if requests {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b *autoscalingv2.HorizontalPodAutoscaler) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}
