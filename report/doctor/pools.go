package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

var poolChecks = []Check{
	{
		ID: "pool-problem", Title: "Pools can be managed", Run: poolProblem,
		Fault: "A GPUNodePool's condition says that its target is not there, is shared or is not a target, that it only grows, that it has been below its minimum for half an hour, or of a fixed pool, that it has no node, or one that has not been ready for as long.",
		Means: "It is not managed: nothing is scaled or repartitioned in it.",
		Looks: []*Source{Pools},
	},
	{
		ID: "foreign-autoscaler", Title: "One autoscaler a pool", Run: foreignAutoscaler,
		Fault: "The autoscaler reports that cluster-autoscaler or Karpenter manages the nodes of one of our pools, or cluster-autoscaler names a pool's target in its arguments.",
		Means: "Each reverts the other, under running pods.",
		Looks: []*Source{Pools, Deployments},
	},
	{
		ID: "pool-frozen", Title: "Nothing is frozen", Run: poolFrozen,
		Fault: "`spec.freeze` of a pool, `policy.freeze` or `--dry-run` is on.",
		Means: "Nothing new is done; decisions are still explained. It may be intended.",
		Looks: []*Source{Pools, Deployments, DaemonSets}, Also: []*Source{ConfigMaps},
	},
	{
		ID: "pool-backoff", Title: "Providers deliver", Run: poolBackoff,
		Fault: "A pool is in backoff after its provider failed to deliver.",
		Means: "Pods are pending for nodes that are not requested until then.",
		Looks: []*Source{Pools},
	},
	{
		ID: "leader", Title: "The autoscaler reconciles", Run: leader,
		Fault: "No replica leads, the Lease has expired, or the last reconcile is long ago.",
		Means: "Nothing is scaled, repartitioned or explained.",
		Looks: []*Source{Deployments, DaemonSets}, Also: []*Source{ConfigMaps, Leases, LastReconcile, Leaders},
	},
	{
		ID: "namespace-limits", Title: "No namespace exceeds what is read of it", Run: namespaceLimits,
		Fault: "A namespace has more pending pods, topology rules, pods to come or PodDisruptionBudgets than the autoscaler reads.",
		Means: "Its pods beyond the limit are not planned for, or none of its pods is evicted. Other namespaces are not affected.",
		Looks: []*Source{GPUNodes, LimitsExceeded},
	},
	{
		ID: "crd-old", Title: "CRDs have the fields that programs write", Run: crdOld,
		Fault: "A CRD of ours does not exist, or lacks fields.",
		Means: "The API server drops these fields silently.",
		Looks: []*Source{Deployments, DaemonSets, CRDs},
	},
}

// reasonForeign is the condition of a pool that another autoscaler manages.
const reasonForeign = "ForeignAutoscaler"

// belowFor is the time below its minimum from which a pool is reported.
const belowFor = 30 * time.Minute

// conditionText is a condition as findings show it.
func conditionText(name string, c *metav1.Condition) string {
	return fmt.Sprintf("%s=%s, %s: %s", name, c.Status, c.Reason, c.Message)
}

func poolProblem(l *look) {
	for _, p := range l.pools() {
		f := Finding{Object: "GPUNodePool " + p.Name, Commands: []string{l.kubectl("get", "gpunodepool", p.Name, "-o", "yaml")}}
		valid, ready, grows := meta.FindStatusCondition(p.Status.Conditions, "Valid"), meta.FindStatusCondition(p.Status.Conditions, "Ready"), meta.FindStatusCondition(p.Status.Conditions, "GrowOnly")
		unready := ready != nil && ready.Status == metav1.ConditionFalse
		switch {
		case valid != nil && valid.Status == metav1.ConditionFalse && valid.Reason != reasonForeign:
			f.Seen, f.Fix = conditionText("Valid", valid), "Correct what the message names; the pool resumes in the next reconcile."
			l.fault(f)
		case unready && ready.Reason == "NoNodes": // of a fixed pool
			f.Seen = conditionText("Ready", ready)
			f.Means, f.Fix = "no provider makes its nodes, and no node has its label: it does nothing", "Add the label "+v1alpha1.NodePoolLabel+"="+p.Name+" on its nodes."
			f.Commands = []string{l.kubectl("get", "nodes", "-L", v1alpha1.NodePoolLabel+","+labelProduct)}
			l.warn(f)
		case unready && l.f.Now.Sub(ready.LastTransitionTime.Time) > belowFor:
			f.Seen = fmt.Sprintf("Ready=False for %s, %s: %s", l.f.Now.Sub(ready.LastTransitionTime.Time).Round(time.Minute), ready.Reason, ready.Message)
			f.Means, f.Fix = "its minimum of nodes does not exist", "Check status.reason and lastDecisions of the pool, and its provider."
			if p.Spec.Provider.Fixed != nil {
				f.Means, f.Fix = "its machines are unusable, and no provider makes others", "Check those that are not ready; remove the label from one that will not return."
				f.Commands = []string{l.kubectl("get", "nodes", "-l", v1alpha1.NodePoolLabel+"="+p.Name)}
			}
			l.warn(f)
		}
		if grows != nil && grows.Status == metav1.ConditionTrue {
			f.Seen = conditionText("GrowOnly", grows)
			f.Means, f.Fix = "nodes are added and none is removed", "Name a target of Cluster API or Karpenter, or declare it intended."
			f.Commands = []string{l.patch("", "gpunodepool", p.Name, `{"spec":{"scaleDown":{"disabled":true}}}`)}
			l.warn(f)
		}
	}
}

func foreignAutoscaler(l *look) {
	for _, p := range l.pools() {
		f := Finding{Object: "GPUNodePool " + p.Name}
		if c := foreignCondition(p); c != nil {
			f.Seen = fmt.Sprintf("%s: %s", c.Reason, c.Message)
			f.Fix = "Exclude these nodes from one of them: the message names the change."
			f.Commands = []string{l.kubectl("get", "gpunodepool", p.Name, "-o", "yaml")}
			l.fault(f)
			continue
		}
		l.clusterAutoscaler(p, f)
	}
}

func foreignCondition(p *pool) *metav1.Condition {
	return the(p.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == reasonForeign && c.Status == metav1.ConditionTrue || c.Type == "Valid" && c.Status == metav1.ConditionFalse && c.Reason == reasonForeign
	})
}

// clusterAutoscaler reports a cluster-autoscaler that has a pool's target among its
// node groups.
func (l *look) clusterAutoscaler(p *pool, f Finding) {
	name := "" // what cluster-autoscaler would call its target
	switch {
	case p.Spec.Provider.ASG != nil:
		name = p.Spec.Provider.ASG.Name
	case p.Spec.Provider.Scale != nil:
		name = p.Spec.Provider.Scale.Name
	}
	for _, d := range l.f.Deployments {
		if name == "" || !runs(d.Spec.Template.Spec, "cluster-autoscaler") || d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			continue
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			for _, a := range slices.Concat(c.Command, c.Args) {
				group, ok := strings.CutPrefix(a, "--nodes=")
				group = group[strings.LastIndexByte(group, ':')+1:]
				if ok && (group == name || strings.HasSuffix(group, "/"+name)) {
					f.Seen = fmt.Sprintf("Deployment %s/%s of cluster-autoscaler has %s", d.Namespace, d.Name, a)
					f.Fix = "Remove that node group from cluster-autoscaler's arguments, or delete the pool."
					f.Commands = []string{l.in(d.Namespace, "get", "deployment", d.Name, "-o", "jsonpath={.spec.template.spec.containers[*].command} {.spec.template.spec.containers[*].args}")}
					l.fault(f)
					return
				}
			}
		}
	}
}

func poolFrozen(l *look) {
	for _, p := range l.f.Pools {
		if p.Spec.Freeze {
			l.warn(Finding{
				Object: "GPUNodePool " + p.Name, Seen: "spec.freeze is true",
				Means: "nothing new is done in this pool; decisions are still explained",
				Fix:   "Unset it, unless this is intended.",
			}, l.patch("", "gpunodepool", p.Name, `{"spec":{"freeze":false}}`))
		}
	}
	for _, p := range l.programs("autoscaler") {
		if at := slices.IndexFunc(p.Args, isDryRun); at >= 0 {
			l.warn(Finding{
				Object: p.Object(), Seen: p.Args[at] + " is among its arguments",
				Means: "it plans and logs, and does nothing",
				Fix:   "Remove the flag, unless this is intended.",
			}, l.undry(p, at))
		}
		c, known := l.config(p)
		if known && c.Policy.Freeze {
			l.warn(Finding{
				Object: "ConfigMap " + p.Namespace + "/" + p.ConfigMap, Seen: "policy.freeze is true",
				Means: "nothing new is done in any pool; decisions are still explained",
				Fix:   "Remove it from the configuration, unless this is intended; the autoscaler reads it at its start.",
			}, l.install(p, "autoscaler.yaml", "autoscaler.config.policy.freeze=false"))
		}
	}
}

func isDryRun(arg string) bool { return arg == "--dry-run" || arg == "--dry-run=true" }

// undry writes the command that removes --dry-run.
func (l *look) undry(p Program, at int) string {
	if c := l.install(p, "autoscaler.yaml", "autoscaler.dryRun=false"); c != "" && !byHand(p.ManagedFields, "args") {
		return c
	}
	path := fmt.Sprintf("/spec/template/spec/containers/0/args/%d", at)
	return l.in(p.Namespace, "patch", "deployment", p.Name, "--type=json", "-p",
		fmt.Sprintf(`[{"op":"test","path":%q,"value":%q},{"op":"remove","path":%q}]`, path, p.Args[at], path))
}

func poolBackoff(l *look) {
	for _, p := range l.pools() {
		b := p.Status.Backoff
		if b == nil || !b.UntilTime.After(l.f.Now) {
			continue
		}
		f := Finding{
			Object: "GPUNodePool " + p.Name, Seen: fmt.Sprintf("status.backoff: %d failures in a row, until %s", b.Failures, b.UntilTime.UTC().Format(time.RFC3339)),
			Fix:      "Check the provider; requests resume by themselves.",
			Commands: []string{l.kubectl("describe", "gpunodepool", p.Name)},
		}
		for _, d := range p.Status.LastDecisions {
			if d.Failed {
				f.Seen += "; " + d.Action + ": " + d.Message
				break
			}
		}
		l.warn(f)
	}
}

// config is the part of the autoscaler's configuration that checks read.
type config struct {
	LeaderElection struct {
		Enabled   *bool  `json:"enabled"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"leaderElection"`
	Policy struct {
		Freeze bool `json:"freeze"`
	} `json:"policy"`
}

// config returns an autoscaler's configuration; known is false where it cannot be read.
func (l *look) config(p Program) (c config, known bool) {
	if p.ConfigMap == "" || !l.has(ConfigMaps) {
		return config{}, p.ConfigMap == ""
	}
	m := find(l.f.ConfigMaps, p.Namespace, p.ConfigMap)
	if m == nil {
		return config{}, true // its absence shows in the pods
	}
	if err := yaml.Unmarshal([]byte(m.Data["config.yaml"]), &c); err != nil { // strictly is for the autoscaler
		l.cannot("ConfigMap %s/%s: reading it: %v", m.Namespace, m.Name, err)
		return config{}, false
	}
	return c, true
}

func leader(l *look) {
	for _, p := range orSkip(l, l.programs("autoscaler"), "no autoscaler of gpuscale was found") {
		if slices.ContainsFunc(p.Args, isDryRun) {
			continue // it has no Lease, and pool-frozen reports it
		}
		if p.Wanted == 0 {
			l.warn(Finding{
				Object: p.Object(), Seen: "spec.replicas is 0",
				Fix: "Scale it up, unless this is intended.",
			}, l.in(p.Namespace, "scale", p.Ref(), "--replicas=2"))
			continue
		}
		if !l.lease(p) {
			l.lastReconcile(p)
		}
	}
}

// lease checks the leader by its Lease, and reports whether there is a finding.
func (l *look) lease(p Program) bool {
	c, known := l.config(p)
	if !known || c.LeaderElection.Enabled != nil && !*c.LeaderElection.Enabled || !l.has(Leases) {
		return false
	}
	name := cmp.Or(c.LeaderElection.Name, "gpuscale-autoscaler")
	f := Finding{
		Object: "Lease " + p.Namespace + "/" + name, Means: "no replica leads: nothing is scaled, repartitioned or explained",
		Fix:      "Check why no replica acquires it.",
		Commands: []string{l.in(p.Namespace, "get", "pods", "-l", metav1.FormatLabelSelector(p.Selector)), l.in(p.Namespace, "describe", p.Ref()), l.logs(p)},
	}
	if c.LeaderElection.Namespace != "" && c.LeaderElection.Namespace != p.Namespace {
		l.cannot("the Lease is in namespace %s, which was not read", c.LeaderElection.Namespace)
		return false
	}
	found := find(l.f.Leases, p.Namespace, name)
	if found == nil {
		f.Seen = "it does not exist, and " + p.Object() + " is"
		l.fault(f)
		return true
	}
	spec := found.Spec
	lasts := time.Duration(cmp.Or(max(0, *cmp.Or(spec.LeaseDurationSeconds, new(int32))), 15)) * time.Second
	age := l.f.Now.Add(l.f.Took).Sub(cmp.Or(spec.RenewTime, &metav1.MicroTime{}).Time)
	switch {
	case spec.HolderIdentity == nil || *spec.HolderIdentity == "":
		f.Seen = "holderIdentity is empty"
	case spec.RenewTime == nil:
		f.Seen = "renewTime is empty"
	case age > 2*lasts:
		f.Seen = fmt.Sprintf("%s renewed it %s ago, and it lasts %s", *spec.HolderIdentity, age.Round(time.Second), lasts)
	default:
		return false
	}
	l.fault(f)
	return true
}

// reconcileLate is how old the last reconcile may be: the longest pause is ten seconds.
const reconcileLate = time.Minute

// lastReconcile checks the age of the last reconcile, by the autoscaler's own series.
func (l *look) lastReconcile(p Program) {
	f := Finding{Object: p.Object(), Commands: []string{l.logs(p)}}
	if v := l.f.Answers[Leaders]; len(v) > 0 && v[0].Value > 1 {
		f.Seen = fmt.Sprintf("gpuscale_autoscaler_leader adds up to %s", number(v[0].Value))
		f.Means = "two replicas act as leader; one loses the Lease"
		f.Fix = "If it lasts, check whether two releases share one Prometheus (--match), or leader election is off."
		l.warn(f)
	}
	at, known := l.f.moment(LastReconcile) // without series: scrape-missing
	if age := l.f.Now.Sub(at); known && age > reconcileLate {
		f.Seen = fmt.Sprintf("gpuscale_autoscaler_last_reconcile_timestamp_seconds is %s ago", age.Round(time.Second))
		f.Means = "it leads and completes no reconcile: nothing is scaled, repartitioned or explained"
		f.Fix = "Check why its reconciles fail."
		l.fault(f)
	}
}
