package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/plan"
)

// scaledKinds are the kinds of workload that can have a forecast.
var scaledKinds = map[string]foreign.Kind{"Deployment": foreign.Deployment, "StatefulSet": foreign.StatefulSet}

// expect adds forecasts to a Snapshot. The shape of one replica is read from its workload, their
// number from the pods.
func (v *converter) expect(outlooks []Outlook, pods []plan.Pod, models map[string]string, now time.Time) ([]plan.Forecast, error) {
	var out []plan.Forecast
	var wrong []string
	seen := map[string]bool{}
	for _, o := range outlooks {
		object := v.workload(o.Series)
		switch {
		case object == nil:
			wrong = append(wrong, fmt.Sprintf("there is no %s %s", o.Kind, o.key()))
			continue
		case seen[o.key()]:
			wrong = append(wrong, fmt.Sprintf("two forecasts are for %s", o.key()))
			continue
		}
		seen[o.key()] = true
		template := &object.Maker.Roles[0].Template
		like := v.template(o.Namespace, template)
		if like.Demand.Zero() {
			wrong = append(wrong, fmt.Sprintf("%s %s requests no GPU", o.Kind, o.key()))
			continue
		}
		like.Namespace, like.Name, like.Owner = o.Namespace, o.Series.Name, o.Kind+"/"+o.Series.Name
		like.Created, like.PendingSince, like.Evictable = now, now, true
		like.Groups = v.rules.in(like.Namespace, template.Labels)
		spec := WithDefaults(&template.Spec, v.ranges[o.Namespace])
		like.Tenant = cmp.Or(v.c.ledger.Refuse([]ledger.Made{{Namespace: o.Namespace, Spec: &spec}})[0],
			v.c.ledger.Tenant(claimOf(like, models, template.Labels, template.Annotations, template.Spec.SchedulerName, "", "")))
		f := plan.Forecast{Name: o.key(), Like: like, Have: have(pods, o), At: o.At}
		f.Low, f.Expected, f.High, f.Error, f.Unsure = o.replicas()
		if f.Unsure == "" && !o.At.After(now) {
			f.Low, f.Expected, f.High, f.Error, f.Unsure = 0, 0, 0, 0, "the last one is overdue: Prometheus has not answered since"
		}
		out = append(out, f)
	}
	if len(wrong) > 0 {
		return out, fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return out, nil
}

// workload returns the object of a series, nil if it does not exist or is unreadable.
func (v *converter) workload(s Series) *foreign.Object {
	if v.workloads == nil {
		v.workloads = map[string]*foreign.Object{}
		for kind, of := range scaledKinds {
			for _, o := range slices.Backward(v.c.foreign[of]) {
				v.workloads[kind+"/"+o.Namespace+"/"+o.Name] = o
			}
		}
	}
	o := v.workloads[s.Kind+"/"+s.key()]
	if o == nil || o.Maker == nil || len(o.Maker.Roles) != 1 {
		return nil
	}
	return o
}

// have counts the replicas that exist or are to be created.
func have(pods []plan.Pod, o Outlook) int {
	n := 0
	for i := range pods {
		if p := &pods[i]; p.Namespace == o.Namespace && p.Owner == o.Kind+"/"+o.Series.Name && !p.Leaving {
			n++
		}
	}
	return n
}
