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
		ID: "pool-problem", Title: "The autoscaler can manage its pools", Run: poolProblem,
		Fault: "A condition of a GPUNodePool reports a problem: the target does not exist, belongs to another pool too or cannot be scaled; the autoscaler can only add nodes; the pool has been below its minimum for half an hour; or it is a fixed pool without nodes, or with a node that has not been ready for half an hour.",
		Means: "The autoscaler does not manage the pool: it scales and repartitions nothing in it.",
		Looks: from(Pools),
	},
	{
		ID: "foreign-autoscaler", Title: "Each pool has one autoscaler", Run: foreignAutoscaler,
		Fault: "cluster-autoscaler or Karpenter manages the nodes of a GPUNodePool too: gpuscale's autoscaler reports it, or an argument of cluster-autoscaler names the pool's target.",
		Means: "Each undoes what the other does, and running pods are evicted.",
		Looks: from(Pools, Deployments),
	},
	{
		ID: "pool-frozen", Title: "Nothing is frozen", Run: poolFrozen,
		Fault: "`spec.freeze` of a GPUNodePool, `policy.freeze` or `--dry-run` is set.",
		Means: "The autoscaler starts nothing new, but still explains its decisions. This may be intended.",
		Looks: from(Pools, Deployments, DaemonSets), Also: from(ConfigMaps),
	},
	{
		ID: "pool-backoff", Title: "Providers deliver nodes", Run: poolBackoff,
		Fault: "A GPUNodePool is in backoff, because its provider failed to deliver nodes.",
		Means: "Until the backoff ends, the autoscaler requests no nodes for this pool, and pods that need them stay pending.",
		Looks: from(Pools),
	},
	{
		ID: "leader", Title: "The autoscaler reconciles", Run: leader,
		Fault: "No replica of the autoscaler leads, its Lease has expired, or its last successful reconcile was more than five minutes ago.",
		Means: "No node is added or removed, no GPU is repartitioned, and no decision is explained.",
		Looks: from(Deployments, DaemonSets), Also: from(ConfigMaps, Leases, LastReconcile, Leaders),
	},
	{
		ID: "namespace-limits", Title: "No namespace exceeds the autoscaler's limits", Run: namespaceLimits,
		Fault: "A namespace has more than the autoscaler reads: pending pods, topology rules, expected pods of gangs and HPAs, or PodDisruptionBudgets.",
		Means: "The autoscaler adds no nodes for the pods beyond the limit, or evicts no pod of the namespace. Other namespaces are not affected.",
		Looks: from(GPUNodes, LimitsExceeded),
	},
	{
		ID: "crd-old", Title: "CRDs have the fields that gpuscale writes", Run: crdOld,
		Fault: "A CRD of gpuscale does not exist, or lacks fields.",
		Means: "The API server silently drops the fields that the CRD lacks.",
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
			l.fault(object, conditionText(valid), "Correct the pool as the message says. The autoscaler manages it again from the next reconcile.", show)
		case unready && ready.Reason == "NoNodes": // for a fixed pool
			l.warn(object, conditionText(ready), "Set the label "+v1alpha1.NodePoolLabel+"="+p.Name+" on the pool's nodes.",
				l.kubectl("get", "nodes", "-L", v1alpha1.NodePoolLabel+","+labelProduct)).Means = "A fixed pool contains the nodes with its label, and there is none: the pool does nothing."
		case unready && l.Now.Sub(ready.LastTransitionTime.Time) > belowFor:
			seen := fmt.Sprintf("Ready=False for %s, %s: %s", l.Now.Sub(ready.LastTransitionTime.Time).Round(time.Minute), ready.Reason, ready.Message)
			if p.Spec.Provider.Fixed == nil {
				l.warn(object, seen, "Read status.reason and status.lastDecisions of the pool, and check its provider.", show).Means = "The pool has fewer ready nodes than its minimum."
				break
			}
			l.warn(object, seen, "Check the nodes that are not ready. Remove the label from a node that will not return.", l.kubectl("get", "nodes", "-l", v1alpha1.NodePoolLabel+"="+p.Name)).
				Means = "These machines are unusable, and no provider replaces them."
		}
		if grows != nil && grows.Status == metav1.ConditionTrue {
			l.warn(object, conditionText(grows), "Use a target of Cluster API or Karpenter, whose nodes can be removed; or, if this is intended, disable scaling down.", l.patch("", "gpunodepool", p.Name, `{"spec":{"scaleDown":{"disabled":true}}}`)).
				Means = "The autoscaler adds nodes to the pool and removes none."
		}
	}
}

func foreignAutoscaler(l *look) {
	for _, p := range allPools(l) {
		if c := the(p.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == reasonForeign && c.Status == metav1.ConditionTrue || c.Type == "Valid" && c.Status == metav1.ConditionFalse && c.Reason == reasonForeign
		}); c != nil {
			l.fault("GPUNodePool "+p.Name, fmt.Sprintf("%s: %s", c.Reason, c.Message), "Exclude these nodes from one of the two autoscalers: the message names the change.", l.kubectl("get", "gpunodepool", p.Name, "-o", "yaml"))
			continue
		}
		if d, argument := clusterAutoscaler(l, p); d != nil {
			l.fault("GPUNodePool "+p.Name, fmt.Sprintf("cluster-autoscaler (Deployment %s/%s) manages its nodes too, by the argument %s", d.Namespace, d.Name, argument),
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
			l.warn("GPUNodePool "+p.Name, "spec.freeze is true", "Set spec.freeze to false, unless the freeze is intended.", l.patch("", "gpunodepool", p.Name, `{"spec":{"freeze":false}}`))
		}
	}
	for _, p := range l.programs("autoscaler") {
		if at := slices.IndexFunc(p.Args, isDryRun); at >= 0 {
			l.warn(p.Object(), "it runs with the argument "+p.Args[at], "Remove the argument, unless the dry run is intended.",
				cmp.Or(l.install(p, "autoscaler.yaml", "autoscaler.dryRun=false"), l.in(p.Namespace, "edit", p.Ref())))
		}
		if c, known := configOf(l, p); known && c.Policy.Freeze {
			l.warn("ConfigMap "+p.Namespace+"/"+p.ConfigMap, "policy.freeze is true", "Remove policy.freeze, unless the freeze is intended. The autoscaler reads its configuration when it starts.",
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
		l.warn("GPUNodePool "+p.Name, seen, "Check the provider: quota, stock, image of the nodes. The autoscaler retries when the backoff ends.", l.kubectl("describe", "gpunodepool", p.Name))
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
	for _, p := range orSkip(l, l.programs("autoscaler"), "no gpuscale autoscaler is installed") {
		if slices.ContainsFunc(p.Args, isDryRun) {
			continue // it has no Lease; pool-frozen reports that
		}
		if p.Wanted == 0 {
			l.warn(p.Object(), "spec.replicas is 0", "Scale it up, unless it was stopped on purpose.", l.in(p.Namespace, "scale", p.Ref(), "--replicas=2"))
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
		seen = "the Lease does not exist, although " + p.Object() + " is installed"
	} else {
		spec := found.Spec
		lasts := time.Duration(cmp.Or(max(0, *cmp.Or(spec.LeaseDurationSeconds, new(int32))), 15)) * time.Second
		age := l.Now.Add(l.Took).Sub(cmp.Or(spec.RenewTime, &metav1.MicroTime{}).Time)
		switch {
		case spec.HolderIdentity == nil || *spec.HolderIdentity == "":
			seen = "spec.holderIdentity is empty"
		case age > 2*lasts:
			seen = fmt.Sprintf("%s renewed the Lease %s ago, and it is valid for %s", *spec.HolderIdentity, age.Round(time.Second), lasts)
		default:
			return false
		}
	}
	l.fault("Lease "+of.namespace+"/"+of.name, seen, "Check why no replica of the autoscaler acquires the Lease: the pods' state and log say so.",
		l.in(p.Namespace, "get", "pods", "-l", metav1.FormatLabelSelector(p.Selector)), l.in(p.Namespace, "describe", p.Ref()), l.logs(p))
	return true
}

// reconcileLate is the maximum age of the last reconcile, the same as in the alert. The autoscaler pauses 30
// seconds at most, and a scrape may come only every two minutes.
const reconcileLate = 5 * time.Minute

// checkReconcile checks the age of the last reconcile with the autoscaler's own series.
func checkReconcile(l *look, p Program) {
	if v := l.answers(Leaders); len(v) > 0 && v[0].Value > 1 {
		l.warn(p.Object(), fmt.Sprintf("the sum of gpuscale_autoscaler_leader is %s", number(v[0].Value)),
			"If this lasts, check whether two clusters or releases share this Prometheus (--match selects one), and whether leader election is on.", l.logs(p)).Means = "Two replicas act as leader at the same time."
	}
	at, known := l.moment(LastReconcile) // without series, scrape-missing reports it
	if age := l.Now.Sub(at); known && age > reconcileLate {
		l.fault(p.Object(), fmt.Sprintf("the last successful reconcile was %s ago (gpuscale_autoscaler_last_reconcile_timestamp_seconds)", age.Round(time.Second)), "Read the log of the autoscaler: it says why reconciles fail.", l.logs(p))
	}
}
