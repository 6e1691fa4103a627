package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// guardChecks look at objects of others that block the autoscaler's writes.
var guardChecks = []Check{
	{
		ID: "budget-forever", Title: "Budgets allow evictions of pods with GPUs", Run: budgetForever,
		Fault: "A PodDisruptionBudget over pods with GPUs, on nodes of a pool, can never allow an eviction: `maxUnavailable` is 0, or `minAvailable` is all of them.",
		Means: "Their nodes are never drained, scaled down or repartitioned: budgets are always honoured.",
		Looks: from(Budgets, Nodes, Pools, HPAs), Also: from(Pods),
	},
	{
		ID: "webhook-dead", Title: "Webhooks over our writes answer", Run: webhookDead,
		Fault: "An admission webhook with `failurePolicy: Fail` covers nodes, evictions or our own kinds, and its Service is missing or has no endpoint.",
		Means: "The API server refuses each of these writes, from any client.",
		Looks: from(ValidatingWebhooks, MutatingWebhooks, Services, EndpointSlices, Deployments, DaemonSets), May: from(Namespaces, Nodes, Pods, Pools, GPUQuotas),
	},
	{
		ID: "two-autoscalers", Title: "One autoscaler a cluster", Run: twoAutoscalers,
		Fault: "Two installations of the autoscaler manage the same pools, each with its own Lease.",
		Means: "Each reverts the other, and nodes are added twice.",
		Looks: from(Deployments, DaemonSets), May: from(ConfigMaps),
	},
}

func budgetForever(l *look) {
	pools := l.pools()
	ours := map[string]bool{} // nodes of a pool
	for _, n := range Nodes.in(l) {
		if find(pools, "", n.Labels[v1alpha1.NodePoolLabel]) != nil {
			ours[n.Name] = true
		}
	}
	for _, b := range Budgets.in(l) {
		why := l.never(b)
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if why == "" || err != nil {
			continue
		}
		var held []string
		for _, p := range Pods.in(l) {
			if p.Namespace == b.Namespace && ours[p.Spec.NodeName] && len(gpuResources(&p.Spec)) > 0 && selector.Matches(labels.Set(p.Labels)) {
				held = append(held, p.Name)
			}
		}
		if len(held) == 0 {
			continue
		}
		slices.Sort(held)
		l.warn("PodDisruptionBudget "+b.Namespace+"/"+b.Name, why+", over "+several(held), "Allow one eviction at a time, unless this is intended.",
			l.patch(b.Namespace, "poddisruptionbudget", b.Name, `{"spec":{"maxUnavailable":1,"minAvailable":null}}`))
	}
}

// never is why a budget allows no eviction, now or later; empty where it may. A target
// of an HPA may get another pod, so it does not count.
func (l *look) never(b *budget) string {
	if m := b.Spec.MaxUnavailable; m != nil {
		if m.String() == "0" || m.String() == "0%" {
			return "spec.maxUnavailable is " + m.String()
		}
		return ""
	}
	m := b.Spec.MinAvailable
	if m == nil {
		return ""
	}
	if m.Type == intstr.String {
		if share, err := strconv.Atoi(strings.TrimSuffix(m.StrVal, "%")); err == nil && share >= 100 {
			return "spec.minAvailable is " + m.StrVal
		}
		return ""
	}
	if b.Status.ExpectedPods == 0 || m.IntVal < b.Status.ExpectedPods {
		return ""
	}
	for _, h := range HPAs.in(l) {
		if h.Namespace == b.Namespace && h.Spec.MaxReplicas > m.IntVal {
			return ""
		}
	}
	return fmt.Sprintf("spec.minAvailable is %d, of %d pods", m.IntVal, b.Status.ExpectedPods)
}

// write is a write of our programs.
type write struct {
	group, resource string
	operation       admissionv1.OperationType
	scope           admissionv1.ScopeType
}

// written are the writes of our programs, beside those of their own Events and Leases.
var written = []write{
	{"", "nodes", admissionv1.Update, admissionv1.ClusterScope}, {"", "nodes/status", admissionv1.Update, admissionv1.ClusterScope},
	{"", "pods/eviction", admissionv1.Create, admissionv1.NamespacedScope}, {"", "pods/status", admissionv1.Update, admissionv1.NamespacedScope},
	{"gpuscale.io", "gpunodepools/status", admissionv1.Update, admissionv1.ClusterScope}, {"gpuscale.io", "gpuquotas/status", admissionv1.Update, admissionv1.ClusterScope},
}

// in reports whether a webhook's rules cover the write.
func (w write) in(rules []admissionv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
		return has(r.APIGroups, w.group) && has(r.Operations, w.operation) && (r.Scope == nil || has([]admissionv1.ScopeType{*r.Scope}, w.scope)) &&
			slices.ContainsFunc(r.Resources, func(have string) bool { return sameResource(have, w.resource) })
	})
}

// webhook is an admission webhook, with its configuration's kind and name.
type webhook struct {
	admissionv1.ValidatingWebhook
	kind, config string
}

// webhooks behind a Service that fail some write of ours when they do not answer, whatever objects
// they select.
func (f *Facts) webhooks() (out []webhook) {
	for i, all := range [][]*webhooks{ValidatingWebhooks.Of(f), MutatingWebhooks.Of(f)} {
		for _, c := range all {
			for _, w := range c.Webhooks {
				if w.ClientConfig.Service != nil && (w.FailurePolicy == nil || *w.FailurePolicy == admissionv1.Fail) &&
					slices.ContainsFunc(written, func(of write) bool { return of.in(w.Rules) }) {
					out = append(out, webhook{w, []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}[i], c.Name})
				}
			}
		}
	}
	return out
}

// selected reports whether a webhook selects an object that a write is about. For objects without a
// namespace its namespaceSelector does not count.
func (l *look) selected(w webhook, of write) bool {
	object, namespace := selecting(w.ObjectSelector), selecting(w.NamespaceSelector)
	whole, _, _ := strings.Cut(of.resource, "/")
	switch {
	case object.Empty() && (namespace.Empty() || of.scope == admissionv1.ClusterScope):
		return true
	case whole == "nodes":
		return anySelected(l, Nodes, object)
	case whole != "pods":
		return anySelected(l, Pools, object) || anySelected(l, GPUQuotas, object)
	}
	l.needs(Namespaces)
	l.needs(Pods)
	return slices.ContainsFunc(Pods.in(l), func(p *corev1.Pod) bool {
		own := labels.Set(p.Labels)
		if of.resource == "pods/eviction" {
			own = nil // an Eviction has no labels
		}
		n := find(Namespaces.in(l), "", p.Namespace)
		return object.Matches(own) && (namespace.Empty() || n != nil && namespace.Matches(labels.Set(n.Labels)))
	})
}

// selecting is a webhook's selector; one that is not stated, or cannot be read, selects all.
func selecting(s *metav1.LabelSelector) labels.Selector {
	if selector, err := metav1.LabelSelectorAsSelector(s); s != nil && err == nil {
		return selector
	}
	return labels.Everything()
}

func anySelected[T any, P interface {
	*T
	metav1.Object
}](l *look, of kind[T], by labels.Selector) bool {
	l.needs(of)
	return slices.ContainsFunc(of.in(l), func(o *T) bool { return by.Matches(labels.Set(P(o).GetLabels())) })
}

// has reports whether a rule's list has one, or all.
func has[T ~string](all []T, one T) bool {
	return slices.Contains(all, "*") || slices.Contains(all, one)
}

// sameResource compares a rule's resource with one: "*" has no subresources, "*/*" and
// "pods/*" have.
func sameResource(rule, resource string) bool {
	whole, below, sub := strings.Cut(resource, "/")
	ruleWhole, ruleBelow, ruleSub := strings.Cut(rule, "/")
	if ruleWhole != "*" && ruleWhole != whole {
		return false
	}
	return ruleSub && ruleBelow == "*" || ruleSub == sub && ruleBelow == below
}

func webhookDead(l *look) {
	if len(orSkip(l, slices.Concat(l.programs("autoscaler"), l.programs("agent")), "neither the autoscaler nor the agent of gpuscale was found: nothing writes")) == 0 {
		return
	}
	for _, w := range l.f.webhooks() {
		at, why := w.ClientConfig.Service, "does not exist"
		if s := l.service(at.Namespace, at.Name); s != nil {
			if why = "has no ready endpoint"; l.ready(s) {
				continue
			}
		}
		var over []string
		for _, of := range written {
			if of.in(w.Rules) && l.selected(w, of) {
				over = append(over, of.resource)
			}
		}
		if len(over) == 0 {
			continue
		}
		add, seen := l.fault, fmt.Sprintf("webhook %s covers %s with failurePolicy Fail, and its Service %s/%s %s", w.Name, several(over), at.Namespace, at.Name, why)
		if len(w.MatchConditions) > 0 {
			add, seen = l.warn, seen+"; its matchConditions, which doctor does not evaluate, may exclude our programs"
		}
		add(w.kind+" "+w.config, seen, "Restore its Service; where it is removed for good, delete the configuration.",
			l.in(at.Namespace, "get", "deployments,pods"), l.kubectl("get", strings.ToLower(w.kind), w.config, "-o", "yaml"))
	}
}

func twoAutoscalers(l *look) {
	deciding := slices.DeleteFunc(l.programs("autoscaler"), func(p Program) bool {
		return p.Wanted <= 0 || slices.ContainsFunc(p.Args, isDryRun)
	})
	if len(deciding) < 2 {
		return
	}
	slices.SortStableFunc(deciding, func(a, b Program) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	first, _ := l.leaseOf(deciding[0])
	for _, p := range deciding[1:] {
		if of, known := l.leaseOf(p); known && of == first {
			continue // one of them leads
		}
		l.fault(p.Object(), "it runs beside "+deciding[0].Object()+", which is older", "Keep one: uninstall the other, or run it dry (autoscaler.dryRun=true).",
			l.in(p.Namespace, "scale", p.Ref(), "--replicas=0"))
	}
}
