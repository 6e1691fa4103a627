package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

var poolChecks = []Check{
	{
		ID: "pool-problem", Title: "Pools can be managed", Run: poolProblem,
		Fault: "A GPUNodePool's condition says that its target is not there, is shared or is not a target, that it only grows, that it has been below its minimum for half an hour, or of a fixed pool, that it has no node, or one that has not been ready for as long.",
		Means: "It is not managed: nothing is scaled or repartitioned in it.",
		Looks: []Source{Pools},
	},
	{
		ID: "foreign-autoscaler", Title: "One autoscaler a pool", Run: foreignAutoscaler,
		Fault: "The autoscaler reports that cluster-autoscaler or Karpenter manages the nodes of one of our pools, or cluster-autoscaler names a pool's target in its arguments.",
		Means: "Each reverts the other, under running pods.",
		Looks: []Source{Pools, Deployments},
	},
	{
		ID: "pool-frozen", Title: "Nothing is frozen", Run: poolFrozen,
		Fault: "`spec.freeze` of a pool, `policy.freeze` or `--dry-run` is on.",
		Means: "Nothing new is done; decisions are still explained. It may be intended.",
		Looks: []Source{Pools, Deployments, DaemonSets, ConfigMaps},
	},
	{
		ID: "pool-backoff", Title: "Providers deliver", Run: poolBackoff,
		Fault: "A pool is in backoff after its provider failed to deliver.",
		Means: "Pods are pending for nodes that are not requested until then.",
		Looks: []Source{Pools},
	},
	{
		ID: "leader", Title: "The autoscaler reconciles", Run: leader,
		Fault: "No replica leads, the Lease has expired, or the last reconcile is long ago.",
		Means: "Nothing is scaled, repartitioned or explained.",
		Looks: []Source{Deployments, DaemonSets, ConfigMaps, Leases, LastReconcile, Leaders},
	},
	{
		ID: "namespace-limits", Title: "No namespace exceeds what is read of it", Run: namespaceLimits,
		Fault: "A namespace has more pending pods, topology rules, pods to come or PodDisruptionBudgets than the autoscaler reads.",
		Means: "Its pods beyond the limit are not planned for, or none of its pods is evicted. Other namespaces are not affected.",
		Looks: []Source{GPUNodes, LimitsExceeded},
	},
	{
		ID: "crd-old", Title: "CRDs have the fields that programs write", Run: crdOld,
		Fault: "A CRD of ours does not exist, or lacks fields.",
		Means: "The API server drops these fields silently.",
		Looks: []Source{Deployments, DaemonSets, CRDs},
	},
}

// pools of the cluster; without any, a check is skipped.
func (l *look) pools() []*v1alpha1.GPUNodePool {
	if l.use(Pools) && len(l.f.Pools) == 0 {
		l.skip("there is no GPUNodePool")
	}
	return l.f.Pools
}

// reasonForeign is the condition of a pool that another autoscaler manages.
const reasonForeign = "ForeignAutoscaler"

// reasonNoNodes is that of a fixed pool's condition Ready without a node.
const reasonNoNodes = "NoNodes"

// belowFor is the time below its minimum from which a pool is reported.
const belowFor = 30 * time.Minute

func poolProblem(l *look) {
	for _, p := range l.pools() {
		f := Finding{Object: "GPUNodePool " + p.Name,
			Commands: []string{l.kubectl("get", "gpunodepool", p.Name, "-o", "yaml")}}
		valid, ready := meta.FindStatusCondition(p.Status.Conditions, "Valid"), meta.FindStatusCondition(p.Status.Conditions, "Ready")
		switch {
		case valid != nil && valid.Status == metav1.ConditionFalse && valid.Reason != reasonForeign:
			f.Seen, f.Fix = fmt.Sprintf("Valid=False, %s: %s", valid.Reason, valid.Message), "Correct what the message names; the pool resumes in the next reconcile."
			l.fault(f)
		case ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == reasonNoNodes:
			f.Seen = fmt.Sprintf("Ready=False, %s: %s", ready.Reason, ready.Message)
			f.Means, f.Fix = "no provider makes its nodes, and no node has its label: it does nothing", "Add the label "+v1alpha1.NodePoolLabel+"="+p.Name+" on its nodes."
			f.Commands = []string{l.kubectl("get", "nodes", "-L", v1alpha1.NodePoolLabel+","+labelProduct)}
			l.warn(f)
		case ready != nil && ready.Status == metav1.ConditionFalse && l.f.Now.Sub(ready.LastTransitionTime.Time) > belowFor:
			f.Seen = fmt.Sprintf("Ready=False for %s, %s: %s", l.f.Now.Sub(ready.LastTransitionTime.Time).Round(time.Minute), ready.Reason, ready.Message)
			f.Means, f.Fix = "its minimum of nodes does not exist", "Check status.reason and lastDecisions of the pool, and its provider."
			if p.Spec.Provider.Fixed != nil {
				f.Means, f.Fix = "its machines are unusable, and no provider makes others", "Check those that are not ready; remove the label from one that will not return."
				f.Commands = []string{l.kubectl("get", "nodes", "-l", v1alpha1.NodePoolLabel+"="+p.Name)}
			}
			l.warn(f)
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, "GrowOnly"); c != nil && c.Status == metav1.ConditionTrue {
			f.Seen = fmt.Sprintf("GrowOnly=True, %s: %s", c.Reason, c.Message)
			f.Means, f.Fix = "nodes are added and none is removed", "Name a target of Cluster API or Karpenter, or declare it intended."
			f.Commands = []string{l.patch("", "gpunodepool", p.Name, `{"spec":{"scaleDown":{"disabled":true}}}`)}
			l.warn(f)
		}
	}
}

func foreignAutoscaler(l *look) {
	pools := l.pools()
	l.use(Deployments)
	for _, p := range pools {
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

func foreignCondition(p *v1alpha1.GPUNodePool) *metav1.Condition {
	if c := meta.FindStatusCondition(p.Status.Conditions, reasonForeign); c != nil && c.Status == metav1.ConditionTrue {
		return c
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, "Valid"); c != nil && c.Status == metav1.ConditionFalse && c.Reason == reasonForeign {
		return c
	}
	return nil
}

// clusterAutoscaler reports a cluster-autoscaler that has a pool's target among its
// node groups.
func (l *look) clusterAutoscaler(p *v1alpha1.GPUNodePool, f Finding) {
	for _, d := range l.f.Deployments {
		args, is := clusterAutoscalerArgs(d)
		if !is || d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			continue
		}
		name := groupName(p)
		for _, a := range args {
			group, ok := strings.CutPrefix(a, "--nodes=")
			if !ok || name == "" {
				continue
			}
			group = group[strings.LastIndexByte(group, ':')+1:]
			if group == name || strings.HasSuffix(group, "/"+name) {
				f.Seen = fmt.Sprintf("Deployment %s/%s of cluster-autoscaler has %s", d.Namespace, d.Name, a)
				f.Fix = "Remove that node group from cluster-autoscaler's arguments, or delete the pool."
				f.Commands = []string{l.in(d.Namespace, "get", "deployment", d.Name, "-o", "jsonpath={.spec.template.spec.containers[*].command} {.spec.template.spec.containers[*].args}")}
				l.fault(f)
				return
			}
		}
	}
}

// clusterAutoscalerArgs returns cluster-autoscaler's command line, where a Deployment
// is it.
func clusterAutoscalerArgs(d *appsv1.Deployment) (args []string, is bool) {
	for _, c := range d.Spec.Template.Spec.Containers {
		if strings.Contains(image(c.Image), "cluster-autoscaler") {
			return append(slices.Clone(c.Command), c.Args...), true
		}
	}
	return nil, false
}

// groupName is what cluster-autoscaler would call a pool's target.
func groupName(p *v1alpha1.GPUNodePool) string {
	switch {
	case p.Spec.Provider.ASG != nil:
		return p.Spec.Provider.ASG.Name
	case p.Spec.Provider.Scale != nil:
		return p.Spec.Provider.Scale.Name
	}
	return ""
}

func poolFrozen(l *look) {
	l.use(Pools)
	for _, p := range l.f.Pools {
		if p.Spec.Freeze {
			l.warn(Finding{
				Object: "GPUNodePool " + p.Name, Seen: "spec.freeze is true",
				Means:    "nothing new is done in this pool; decisions are still explained",
				Fix:      "Unset it, unless this is intended.",
				Commands: []string{l.patch("", "gpunodepool", p.Name, `{"spec":{"freeze":false}}`)},
			})
		}
	}
	for _, p := range l.programs("autoscaler") {
		if at := slices.IndexFunc(p.Args, isDryRun); at >= 0 {
			l.warn(Finding{
				Object: p.Object(), Seen: p.Args[at] + " is among its arguments",
				Means:    "it plans and logs, and does nothing",
				Fix:      "Remove the flag, unless this is intended.",
				Commands: []string{l.undry(p, at)},
			})
		}
		c, known := l.config(p)
		if known && c.Policy.Freeze {
			l.warn(Finding{
				Object: "ConfigMap " + p.Namespace + "/" + p.ConfigMap, Seen: "policy.freeze is true",
				Means:    "nothing new is done in any pool; decisions are still explained",
				Fix:      "Remove it from the configuration, unless this is intended; the autoscaler reads it at its start.",
				Commands: []string{l.install(p, "autoscaler.yaml", "autoscaler.config.policy.freeze=false")},
			})
		}
	}
}

func isDryRun(arg string) bool { return arg == "--dry-run" || arg == "--dry-run=true" }

// undry writes the command that removes --dry-run.
func (l *look) undry(p Program, at int) string {
	if c := l.install(p, "autoscaler.yaml", "autoscaler.dryRun=false"); c != "" && !byHand(p.Managed, "args") {
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
