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
		Looks: from(Pools),
	},
	{
		ID: "foreign-autoscaler", Title: "One autoscaler a pool", Run: foreignAutoscaler,
		Fault: "The autoscaler reports that cluster-autoscaler or Karpenter manages the nodes of one of our pools, or cluster-autoscaler names a pool's target in its arguments.",
		Means: "Each reverts the other, under running pods.",
		Looks: from(Pools, Deployments),
	},
	{
		ID: "pool-frozen", Title: "Nothing is frozen", Run: poolFrozen,
		Fault: "`spec.freeze` of a pool, `policy.freeze` or `--dry-run` is on.",
		Means: "Nothing new is done; decisions are still explained. It may be intended.",
		Looks: from(Pools, Deployments, DaemonSets), Also: from(ConfigMaps),
	},
	{
		ID: "pool-backoff", Title: "Providers deliver", Run: poolBackoff,
		Fault: "A pool is in backoff after its provider failed to deliver.",
		Means: "Pods are pending for nodes that are not requested until then.",
		Looks: from(Pools),
	},
	{
		ID: "leader", Title: "The autoscaler reconciles", Run: leader,
		Fault: "No replica leads, the Lease has expired, or the last reconcile is long ago.",
		Means: "Nothing is scaled, repartitioned or explained.",
		Looks: from(Deployments, DaemonSets), Also: from(ConfigMaps, Leases, LastReconcile, Leaders),
	},
	{
		ID: "namespace-limits", Title: "No namespace exceeds what is read of it", Run: namespaceLimits,
		Fault: "A namespace has more pending pods, topology rules, pods to come or PodDisruptionBudgets than the autoscaler reads.",
		Means: "Its pods beyond the limit are not planned for, or none of its pods is evicted. Other namespaces are not affected.",
		Looks: from(GPUNodes, LimitsExceeded),
	},
	{
		ID: "crd-old", Title: "CRDs have the fields that programs write", Run: crdOld,
		Fault: "A CRD of ours does not exist, or lacks fields.",
		Means: "The API server drops these fields silently.",
		Looks: from(Deployments, DaemonSets, CRDs),
	},
}

// reasonForeign is the reason of a condition: another autoscaler manages the pool.
const reasonForeign = "ForeignAutoscaler"

// belowFor is how long a pool may be below its minimum before that is reported.
const belowFor = 30 * time.Minute

// conditionText is a condition as findings show it.
func conditionText(c *metav1.Condition) string {
	return fmt.Sprintf("%s=%s, %s: %s", c.Type, c.Status, c.Reason, c.Message)
}

func poolProblem(l *look) {
	for _, p := range allPools(l) {
		object, show := "GPUNodePool "+p.Name, l.kubectl("get", "gpunodepool", p.Name, "-o", "yaml")
		valid, ready, grows := meta.FindStatusCondition(p.Status.Conditions, "Valid"), meta.FindStatusCondition(p.Status.Conditions, "Ready"), meta.FindStatusCondition(p.Status.Conditions, "GrowOnly")
		unready := ready != nil && ready.Status == metav1.ConditionFalse
		switch {
		case valid != nil && valid.Status == metav1.ConditionFalse && valid.Reason != reasonForeign:
			l.fault(object, conditionText(valid), "Correct what the message names; the pool resumes in the next reconcile.", show)
		case unready && ready.Reason == "NoNodes": // for a fixed pool
			l.warn(object, conditionText(ready), "Add the label "+v1alpha1.NodePoolLabel+"="+p.Name+" on its nodes.",
				l.kubectl("get", "nodes", "-L", v1alpha1.NodePoolLabel+","+labelProduct)).Means = "no provider makes its nodes, and no node has its label: it does nothing"
		case unready && l.Now.Sub(ready.LastTransitionTime.Time) > belowFor:
			seen := fmt.Sprintf("Ready=False for %s, %s: %s", l.Now.Sub(ready.LastTransitionTime.Time).Round(time.Minute), ready.Reason, ready.Message)
			if p.Spec.Provider.Fixed == nil {
				l.warn(object, seen, "Check status.reason and lastDecisions of the pool, and its provider.", show).Means = "its minimum of nodes does not exist"
				break
			}
			l.warn(object, seen, "Check those that are not ready; remove the label from one that will not return.", l.kubectl("get", "nodes", "-l", v1alpha1.NodePoolLabel+"="+p.Name)).
				Means = "its machines are unusable, and no provider makes others"
		}
		if grows != nil && grows.Status == metav1.ConditionTrue {
			l.warn(object, conditionText(grows), "Name a target of Cluster API or Karpenter, or declare it intended.", l.patch("", "gpunodepool", p.Name, `{"spec":{"scaleDown":{"disabled":true}}}`)).
				Means = "nodes are added and none is removed"
		}
	}
}

func foreignAutoscaler(l *look) {
	for _, p := range allPools(l) {
		if c := the(p.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == reasonForeign && c.Status == metav1.ConditionTrue || c.Type == "Valid" && c.Status == metav1.ConditionFalse && c.Reason == reasonForeign
		}); c != nil {
			l.fault("GPUNodePool "+p.Name, fmt.Sprintf("%s: %s", c.Reason, c.Message), "Exclude these nodes from one of them: the message names the change.", l.kubectl("get", "gpunodepool", p.Name, "-o", "yaml"))
			continue
		}
		if d, argument := clusterAutoscaler(l, p); d != nil {
			l.fault("GPUNodePool "+p.Name, fmt.Sprintf("Deployment %s/%s of cluster-autoscaler has %s", d.Namespace, d.Name, argument),
				"Remove that node group from cluster-autoscaler's arguments, or delete the pool.",
				l.in(d.Namespace, "get", "deployment", d.Name, "-o", "jsonpath={.spec.template.spec.containers[*].command} {.spec.template.spec.containers[*].args}"))
		}
	}
}

// clusterAutoscaler returns a cluster-autoscaler that manages the pool's node group too, and the argument
// that says so.
func clusterAutoscaler(l *look, p *pool) (*deployment, string) {
	name := "" // cluster-autoscaler's name for the pool's target
	switch {
	case p.Spec.Provider.ASG != nil:
		name = p.Spec.Provider.ASG.Name
	case p.Spec.Provider.Scale != nil:
		name = p.Spec.Provider.Scale.Name
	}
	for _, d := range Deployments.in(l) {
		if name == "" || !runs(d.Spec.Template.Spec, "cluster-autoscaler") || orOne(d.Spec.Replicas) == 0 {
			continue
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			for _, a := range slices.Concat(c.Command, c.Args) {
				group, ok := strings.CutPrefix(a, "--nodes=")
				group = group[strings.LastIndexByte(group, ':')+1:]
				if ok && (group == name || strings.HasSuffix(group, "/"+name)) {
					return d, a
				}
			}
		}
	}
	return nil, ""
}

func poolFrozen(l *look) {
	for _, p := range Pools.in(l) {
		if p.Spec.Freeze {
			l.warn("GPUNodePool "+p.Name, "spec.freeze is true", "Unset it, unless this is intended.", l.patch("", "gpunodepool", p.Name, `{"spec":{"freeze":false}}`))
		}
	}
	for _, p := range l.programs("autoscaler") {
		if at := slices.IndexFunc(p.Args, isDryRun); at >= 0 {
			l.warn(p.Object(), p.Args[at]+" is among its arguments", "Remove the flag, unless this is intended.",
				cmp.Or(l.install(p, "autoscaler.yaml", "autoscaler.dryRun=false"), l.in(p.Namespace, "edit", p.Ref())))
		}
		if c, known := configOf(l, p); known && c.Policy.Freeze {
			l.warn("ConfigMap "+p.Namespace+"/"+p.ConfigMap, "policy.freeze is true", "Remove it from the configuration, unless this is intended; the autoscaler reads it at its start.",
				l.install(p, "autoscaler.yaml", "autoscaler.config.policy.freeze=false"))
		}
	}
}

func isDryRun(arg string) bool { return arg == "--dry-run" || arg == "--dry-run=true" }

func poolBackoff(l *look) {
	for _, p := range allPools(l) {
		b := p.Status.Backoff
		if b == nil || !b.UntilTime.After(l.Now) {
			continue
		}
		seen := fmt.Sprintf("status.backoff: %d failures in a row, until %s", b.Failures, b.UntilTime.UTC().Format(time.RFC3339))
		if d := the(p.Status.LastDecisions, func(d v1alpha1.Decision) bool { return d.Failed }); d != nil {
			seen += "; " + d.Action + ": " + d.Message
		}
		l.warn("GPUNodePool "+p.Name, seen, "Check the provider; requests resume by themselves.", l.kubectl("describe", "gpunodepool", p.Name))
	}
}

// config has the fields of the autoscaler's configuration that checks read.
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

// configOf returns an autoscaler's configuration; known is false where it cannot be read.
func configOf(l *look, p Program) (c config, known bool) {
	if p.ConfigMap == "" || !l.has(ConfigMaps) {
		return config{}, p.ConfigMap == ""
	}
	m := find(ConfigMaps.in(l), p.Namespace, p.ConfigMap)
	if m == nil {
		return config{}, true // the pods show that the ConfigMap is missing
	}
	if err := yaml.Unmarshal([]byte(m.Data["config.yaml"]), &c); err != nil { // not strictly: the autoscaler checks unknown fields itself
		l.cannot("ConfigMap %s/%s: reading it: %v", m.Namespace, m.Name, err)
		return config{}, false
	}
	return c, true
}

func leader(l *look) {
	for _, p := range orSkip(l, l.programs("autoscaler"), "no autoscaler of gpuscale was found") {
		if slices.ContainsFunc(p.Args, isDryRun) {
			continue // it has no Lease; pool-frozen reports that
		}
		if p.Wanted == 0 {
			l.warn(p.Object(), "spec.replicas is 0", "Scale it up, unless this is intended.", l.in(p.Namespace, "scale", p.Ref(), "--replicas=2"))
			continue
		}
		if !checkLease(l, p) {
			checkReconcile(l, p)
		}
	}
}

// leaseOf returns the Lease of an autoscaler. known is false if it has none, or if its configuration cannot
// be read.
func leaseOf(l *look, p Program) (k key, known bool) {
	c, known := configOf(l, p)
	if !known || c.LeaderElection.Enabled != nil && !*c.LeaderElection.Enabled {
		return key{}, false
	}
	return key{cmp.Or(c.LeaderElection.Namespace, p.Namespace), cmp.Or(c.LeaderElection.Name, "gpuscale-autoscaler")}, true
}

// checkLease checks the leader by its Lease. It reports whether it added a finding.
func checkLease(l *look, p Program) bool {
	of, known := leaseOf(l, p)
	if !known || !l.has(Leases) {
		return false
	}
	if of.namespace != p.Namespace {
		l.cannot("the Lease is in namespace %s, which was not read", of.namespace)
		return false
	}
	seen := ""
	if found := find(Leases.in(l), of.namespace, of.name); found == nil {
		seen = "it does not exist, and " + p.Object() + " is"
	} else {
		spec := found.Spec
		lasts := time.Duration(cmp.Or(max(0, *cmp.Or(spec.LeaseDurationSeconds, new(int32))), 15)) * time.Second
		age := l.Now.Add(l.Took).Sub(cmp.Or(spec.RenewTime, &metav1.MicroTime{}).Time)
		switch {
		case spec.HolderIdentity == nil || *spec.HolderIdentity == "":
			seen = "holderIdentity is empty"
		case spec.RenewTime == nil:
			seen = "renewTime is empty"
		case age > 2*lasts:
			seen = fmt.Sprintf("%s renewed it %s ago, and it lasts %s", *spec.HolderIdentity, age.Round(time.Second), lasts)
		default:
			return false
		}
	}
	l.fault("Lease "+of.namespace+"/"+of.name, seen, "Check why no replica acquires it.",
		l.in(p.Namespace, "get", "pods", "-l", metav1.FormatLabelSelector(p.Selector)), l.in(p.Namespace, "describe", p.Ref()), l.logs(p))
	return true
}

// reconcileLate is the maximum age of the last reconcile, the same as in the alert. The autoscaler pauses ten
// seconds at most, and a scrape may come only every two minutes.
const reconcileLate = 5 * time.Minute

// checkReconcile checks the age of the last reconcile with the autoscaler's own series.
func checkReconcile(l *look, p Program) {
	if v := l.answers(Leaders); len(v) > 0 && v[0].Value > 1 {
		l.warn(p.Object(), fmt.Sprintf("gpuscale_autoscaler_leader adds up to %s", number(v[0].Value)),
			"If it lasts, check whether two releases share one Prometheus (--match), or leader election is off.", l.logs(p)).Means = "two replicas act as leader; one loses the Lease"
	}
	at, known := l.moment(LastReconcile) // without series, scrape-missing reports it
	if age := l.Now.Sub(at); known && age > reconcileLate {
		l.fault(p.Object(), fmt.Sprintf("gpuscale_autoscaler_last_reconcile_timestamp_seconds is %s ago", age.Round(time.Second)), "Check why its reconciles fail.", l.logs(p))
	}
}
