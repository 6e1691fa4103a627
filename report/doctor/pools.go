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
		ID: "pool-problem", Title: "Pools can be worked on", Run: poolProblem,
		Fault: "A GPUNodePool's condition says that its target is not there, is shared or is no target, that it only grows, that it has been below its minimum for half an hour, or of a fixed pool, that it has no node, or one that has not been ready for as long.",
		Means: "It is left alone: nothing is bought, given back or cut in it.",
		Looks: []Source{Pools},
	},
	{
		ID: "foreign-autoscaler", Title: "One autoscaler a pool", Run: foreignAutoscaler,
		Fault: "cluster-autoscaler or Karpenter works on the nodes of one of our pools.",
		Means: "Each undoes what the other does, with running pods on it.",
		Looks: []Source{Pools, Nodes, Deployments, MachineDeployments},
	},
	{
		ID: "pool-frozen", Title: "Nothing is frozen", Run: poolFrozen,
		Fault: "`spec.freeze` of a pool, `policy.freeze` or `--dry-run` is on.",
		Means: "Nothing new is done; decisions are explained all the same. It may be meant.",
		Looks: []Source{Pools, Deployments, DaemonSets, ConfigMaps},
	},
	{
		ID: "pool-backoff", Title: "Providers deliver", Run: poolBackoff,
		Fault: "A pool is left alone since its provider failed to deliver.",
		Means: "Pods wait for nodes that are not asked for until then.",
		Looks: []Source{Pools},
	},
	{
		ID: "leader", Title: "The autoscaler decides", Run: leader,
		Fault: "Nobody leads, the lease is over, or the last round is long ago.",
		Means: "Nothing is bought, given back, cut or explained.",
		Looks: []Source{Deployments, DaemonSets, ConfigMaps, Leases, LastRound, Leaders},
	},
	{
		ID: "crd-old", Title: "CRDs have the fields that programs write", Run: crdOld,
		Fault: "A CRD of ours is not there, or lacks fields.",
		Means: "The API server drops what is written there, without a word.",
		Looks: []Source{Deployments, DaemonSets, CRDs},
	},
}

// pools of the cluster; without any, a check has nothing to look at.
func (l *look) pools() []v1alpha1.GPUNodePool {
	if l.use(Pools) && len(l.f.Pools) == 0 {
		l.skip("there is no GPUNodePool")
	}
	return l.f.Pools
}

// reasonForeign is the condition of a pool that another autoscaler works on.
const reasonForeign = "ForeignAutoscaler"

// reasonNoNodes is that of a fixed pool's condition Ready without a node.
const reasonNoNodes = "NoNodes"

// belowFor is how long a pool may be below its minimum without a word.
const belowFor = 30 * time.Minute

func poolProblem(l *look) {
	for _, p := range l.pools() {
		f := Finding{Object: "GPUNodePool " + p.Name, Means: "it is left alone: nothing is bought, given back or cut in it",
			Commands: []string{l.kubectl("get", "gpunodepool", p.Name, "-o", "yaml")}}
		valid, ready := meta.FindStatusCondition(p.Status.Conditions, "Valid"), meta.FindStatusCondition(p.Status.Conditions, "Ready")
		switch {
		case valid != nil && valid.Status == metav1.ConditionFalse && valid.Reason != reasonForeign:
			f.Seen, f.Fix = fmt.Sprintf("Valid=False, %s: %s", valid.Reason, valid.Message), "Put right what the message names; the pool is taken up again in the next round."
			l.fault(f)
		case ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == reasonNoNodes:
			f.Seen = fmt.Sprintf("Ready=False, %s: %s", ready.Reason, ready.Message)
			f.Means, f.Fix = "nobody makes its nodes, and none is said to be of it: it does nothing", "Put the label "+v1alpha1.NodePoolLabel+"="+p.Name+" on its nodes."
			f.Commands = []string{l.kubectl("get", "nodes", "-L", v1alpha1.NodePoolLabel+","+labelProduct)}
			l.warn(f)
		case ready != nil && ready.Status == metav1.ConditionFalse && l.f.Now.Sub(ready.LastTransitionTime.Time) > belowFor:
			f.Seen = fmt.Sprintf("Ready=False for %s, %s: %s", l.f.Now.Sub(ready.LastTransitionTime.Time).Round(time.Minute), ready.Reason, ready.Message)
			f.Means, f.Fix = "the nodes that it is to have at least are not there", "See status.reason and lastDecisions of the pool, and what its provider says."
			if p.Spec.Provider.Fixed != nil {
				f.Means, f.Fix = "machines of it are no use, and nobody makes others", "Look at those that are not ready; take the label off one that will not come back."
				f.Commands = []string{l.kubectl("get", "nodes", "-l", v1alpha1.NodePoolLabel+"="+p.Name)}
			}
			l.warn(f)
		}
		if c := meta.FindStatusCondition(p.Status.Conditions, "GrowOnly"); c != nil && c.Status == metav1.ConditionTrue {
			f.Seen = fmt.Sprintf("GrowOnly=True, %s: %s", c.Reason, c.Message)
			f.Means, f.Fix = "nodes are added and none is given back", "Name a target of Cluster API or Karpenter, or say that it is meant."
			f.Commands = []string{l.patch("", "gpunodepool", p.Name, `{"spec":{"scaleDown":{"disabled":true}}}`)}
			l.warn(f)
		}
	}
}

// Labels and annotations by which other autoscalers say whose nodes they make.
const (
	labelKarpenter = "karpenter.sh/nodepool"
	annotationMin  = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	annotationMax  = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
)

func foreignAutoscaler(l *look) {
	pools := l.pools()
	nodesKnown, deploymentsKnown := l.use(Nodes), l.use(Deployments)
	for i := range pools {
		p := &pools[i]
		f := Finding{Object: "GPUNodePool " + p.Name, Means: "each undoes what the other does: nodes come and go, with running pods on them"}
		if c := foreignCondition(p); c != nil {
			f.Seen = fmt.Sprintf("%s: %s", c.Reason, c.Message)
			f.Fix = "Have one of them leave these nodes: the message says what to change."
			f.Commands = []string{l.kubectl("get", "gpunodepool", p.Name, "-o", "yaml")}
			l.fault(f)
			continue
		}
		if node, made := l.karpenters(p); nodesKnown && node != "" {
			f.Seen = fmt.Sprintf("node %s of the pool was made by Karpenter's NodePool %s", node, made)
			f.Fix = "Take the label " + v1alpha1.NodePoolLabel + " off that NodePool's template, or name the NodePool as the pool's target."
			f.Commands = []string{l.kubectl("get", "nodepools.karpenter.sh", made, "-o", "yaml")}
			l.fault(f)
			continue
		}
		if deploymentsKnown {
			l.clusterAutoscaler(p, f)
		}
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

// karpenters returns a node of a pool that a NodePool made which is not its target.
func (l *look) karpenters(p *v1alpha1.GPUNodePool) (node, made string) {
	for i := range l.f.Nodes {
		n := &l.f.Nodes[i]
		by := n.Labels[labelKarpenter]
		if by == "" || n.Labels[v1alpha1.NodePoolLabel] != p.Name {
			continue
		}
		s := p.Spec.Provider.Scale
		if s == nil || s.Kind != "NodePool" || s.Name != by || !strings.HasPrefix(s.APIVersion, "karpenter.sh/") {
			return n.Name, by
		}
	}
	return "", ""
}

// clusterAutoscaler reports a cluster-autoscaler that has a pool's target among its
// node groups.
func (l *look) clusterAutoscaler(p *v1alpha1.GPUNodePool, f Finding) {
	for i := range l.f.Deployments {
		d := &l.f.Deployments[i]
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
				f.Fix = "Take that node group out of cluster-autoscaler's arguments, or delete the pool."
				f.Commands = []string{l.in(d.Namespace, "get", "deployment", d.Name, "-o", "jsonpath={.spec.template.spec.containers[*].command} {.spec.template.spec.containers[*].args}")}
				l.fault(f)
				return
			}
		}
		l.discovered(p, d, args, f)
	}
}

// discovered judges a cluster-autoscaler that finds its node groups by itself.
func (l *look) discovered(p *v1alpha1.GPUNodePool, d *appsv1.Deployment, args []string, f Finding) {
	s := p.Spec.Provider.Scale
	switch {
	case s != nil && s.Kind == "MachineDeployment" && strings.HasPrefix(s.APIVersion, "cluster.x-k8s.io/"):
		if !l.use(MachineDeployments) {
			return
		}
		for i := range l.f.MachineDeployments {
			m := &l.f.MachineDeployments[i]
			_, has := m.Annotations[annotationMin]
			if m.Namespace != s.Namespace || m.Name != s.Name || !has {
				continue
			}
			f.Seen = fmt.Sprintf("MachineDeployment %s/%s has the annotation %s, by which cluster-autoscaler (Deployment %s/%s) takes it", s.Namespace, s.Name, annotationMin, d.Namespace, d.Name)
			f.Fix = "Take cluster-autoscaler's annotations off it, or delete the pool."
			f.Commands = []string{l.in(s.Namespace, "annotate", "machinedeployments.cluster.x-k8s.io", s.Name, annotationMin+"-", annotationMax+"-")}
			l.fault(f)
		}
	case p.Spec.Provider.ASG != nil && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--node-group-auto-discovery=asg:") }):
		l.cannot("cluster-autoscaler (Deployment %s/%s) finds Auto Scaling groups by their tags, which cannot be read here: see that the group of GPUNodePool %s has none of them", d.Namespace, d.Name, p.Name)
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
	for i := range l.f.Pools {
		if p := &l.f.Pools[i]; p.Spec.Freeze {
			l.warn(Finding{
				Object: "GPUNodePool " + p.Name, Seen: "spec.freeze is true",
				Means:    "nothing new is done in this pool; decisions are explained all the same",
				Fix:      "Take it back, unless it is meant.",
				Commands: []string{l.patch("", "gpunodepool", p.Name, `{"spec":{"freeze":false}}`)},
			})
		}
	}
	for _, p := range l.programs("autoscaler") {
		if at := slices.IndexFunc(p.Args, isDryRun); at >= 0 {
			l.warn(Finding{
				Object: p.Object(), Seen: p.Args[at] + " is among its arguments",
				Means:    "it decides and logs, and does nothing at all",
				Fix:      "Take the flag away, unless it is meant.",
				Commands: []string{l.undry(p, at)},
			})
		}
		c, known := l.config(p)
		if known && c.Policy.Freeze {
			l.warn(Finding{
				Object: "ConfigMap " + p.Namespace + "/" + p.ConfigMap, Seen: "policy.freeze is true",
				Means:    "nothing new is done in any pool; decisions are explained all the same",
				Fix:      "Take it out of the configuration, unless it is meant; the autoscaler reads it at its start.",
				Commands: []string{l.install(p, "autoscaler.yaml", "autoscaler.config.policy.freeze=false")},
			})
		}
	}
}

func isDryRun(arg string) bool { return arg == "--dry-run" || arg == "--dry-run=true" }

// undry writes the command that takes --dry-run away.
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
		if b == nil || !b.Until.After(l.f.Now) {
			continue
		}
		f := Finding{
			Object: "GPUNodePool " + p.Name, Seen: fmt.Sprintf("status.backoff: %d failures in a row, until %s", b.Failures, b.Until.UTC().Format(time.RFC3339)),
			Means: "no node of it is asked for until then; pods wait, or get nodes of another pool", Fix: "See what the provider says; it is asked again by itself.",
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
