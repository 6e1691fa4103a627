package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// tenantChecks look at how a namespace's guardrails affect its pods with GPUs.
var tenantChecks = []Check{
	{
		ID: "pods-refused", Title: "GPU pods are admitted", Run: podsRefused,
		Fault: "The API server refuses the pods of a GPU workload, or of a DaemonSet of gpuscale, because of a LimitRange, a ResourceQuota, Pod Security or a webhook.",
		Means: "These pods do not exist, so none is pending, and no node is added for them.",
		Looks: from(Refusals), Also: from(ReplicaSets, StatefulSets, Jobs, DaemonSets),
	},
	{
		ID: "limitrange-gpus", Title: "LimitRanges give containers no GPU by default", Run: limitRangeGPUs,
		Fault: "A LimitRange gives a GPU to every container that requests none, by its `default`, or by its `max`, which is the default where none is set.",
		Means: "Sidecars and init containers occupy GPUs, and pods that need no GPU stay pending for one.",
		Looks: from(LimitRanges),
	},
	{
		ID: "networkpolicy-scrape", Title: "NetworkPolicies admit Prometheus", Run: networkPolicyScrape,
		Fault: "An HPA gets no value for its metric, and the NetworkPolicies of its pods admit no traffic from other namespaces.",
		Means: "A Prometheus in another namespace cannot scrape these pods.",
		Looks: from(NetworkPolicies, HPAs, Deployments, DaemonSets, APIServices), Also: from(Pods), May: from(Services),
	},
}

// refused returns the newest Event about a pod that could not be created, one for each workload.
func (f *Facts) refused() []*corev1.Event {
	newest := slices.SortedStableFunc(slices.Values(Refusals.Of(f)), func(a, b *corev1.Event) int { return lastSeen(b).Compare(lastSeen(a)) })
	met := map[[3]string]bool{}
	return slices.DeleteFunc(newest, func(e *corev1.Event) bool {
		of := [3]string{e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name}
		older := met[of]
		met[of] = true
		return older
	})
}

func lastSeen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case e.LastTimestamp.IsZero():
		return e.EventTime.Time
	}
	return e.LastTimestamp.Time
}

// lacks reports whether a workload has fewer pods than it should. A Job that has ended or is suspended should
// have none. A Job without completions makes no new pod after its first success.
func (w *Workload) lacks() bool {
	if w.Kind != "Job" {
		return w.Status.Replicas < orOne(w.Spec.Replicas)
	}
	if w.Status.CompletionTime != nil || w.Spec.Suspend || meta.IsStatusConditionTrue(w.Status.Conditions, "Failed") {
		return false
	}
	most := orOne(w.Spec.Parallelism)
	switch {
	case w.Spec.Completions != nil:
		most = min(most, *w.Spec.Completions-w.Status.Succeeded)
	case w.Status.Succeeded > 0:
		return false
	}
	return w.Status.Active < most
}

func podsRefused(l *look) {
	workloads := map[string]kind[Workload]{"ReplicaSet": ReplicaSets, "StatefulSet": StatefulSets, "Job": Jobs}
	for _, e := range l.refused() {
		of := e.InvolvedObject
		if of.Kind == "DaemonSet" {
			d := find(DaemonSets.in(l), of.Namespace, of.Name)
			if d == nil || !isOurs(d.Labels) || d.Status.CurrentNumberScheduled >= d.Status.DesiredNumberScheduled {
				continue
			}
		} else {
			all, known := workloads[of.Kind]
			if !known {
				continue
			}
			w := find(all.in(l), of.Namespace, of.Name)
			if w == nil || !w.lacks() || len(gpuResources(&w.Spec.Template.Spec)) == 0 {
				continue
			}
		}
		add, fix := l.fault, "Change the pod template, or the rule that the message names."
		if strings.Contains(e.Message, "exceeded quota:") { // this is the purpose of a quota
			add, fix = l.warn, "Raise the ResourceQuota that the message names, unless the limit is intended."
		}
		add(fmt.Sprintf("%s %s/%s", of.Kind, of.Namespace, of.Name), e.Message, fix,
			l.in(of.Namespace, "describe", strings.ToLower(of.Kind), of.Name), l.in(of.Namespace, "get", "resourcequotas,limitranges"))
	}
}

func limitRangeGPUs(l *look) {
	for _, r := range orSkip(l, LimitRanges.in(l), "there is no LimitRange") {
		for at, item := range r.Spec.Limits {
			for _, name := range slices.Sorted(maps.Keys(item.Default)) {
				amount := item.Default[name]
				if item.Type != corev1.LimitTypeContainer || !isGPUResource(string(name)) || amount.Sign() <= 0 {
					continue
				}
				seen := fmt.Sprintf("spec.limits[%d].default has %s: %s", at, name, amount.String())
				if most, there := item.Max[name]; there && most.Cmp(amount) == 0 {
					seen += "; Kubernetes takes max as the default where none is set"
				}
				field := strings.ReplaceAll(string(name), "/", "~1")
				// The list is patched by position, since a merge patch would replace the whole list.
				l.warn("LimitRange "+r.Namespace+"/"+r.Name, seen, "Set the default to 0, and let pods request the GPUs that they need.", l.in(r.Namespace, "patch", "limitrange", r.Name, "--type=json", "-p",
					fmt.Sprintf(`[{"op":"add","path":"/spec/limits/%d/default/%[2]s","value":"0"},{"op":"add","path":"/spec/limits/%[1]d/defaultRequest/%[2]s","value":"0"}]`, at, field)))
			}
		}
	}
}

func networkPolicyScrape(l *look) {
	hpas, _ := hpas(l)
	for _, h := range hpas {
		ofPods := slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool { // otherwise the metrics are the exporter's
			_, name, _ := metricOf(m)
			return name != "" && !strings.HasPrefix(name, "gpu_")
		})
		c := condition(h, "ScalingActive")
		if c == nil || !ofPods || c.Status != corev1.ConditionFalse || !strings.HasPrefix(c.Reason, "FailedGet") || c.Reason == "FailedGetScale" {
			continue
		}
		of := labels.Everything() // for other kinds, all pods of the namespace that request GPUs
		if d := find(Deployments.in(l), h.Namespace, h.Spec.ScaleTargetRef.Name); d != nil && h.Spec.ScaleTargetRef.Kind == "Deployment" {
			of, _ = metav1.LabelSelectorAsSelector(d.Spec.Selector)
		}
		for _, p := range Pods.in(l) {
			if p.Namespace != h.Namespace || p.Spec.HostNetwork || len(gpuResources(&p.Spec)) == 0 || of == nil || !of.Matches(labels.Set(p.Labels)) {
				continue
			}
			if closed := closed(l, p); len(closed) > 0 {
				l.warn(hpaName(h), fmt.Sprintf("%s=False, %s; NetworkPolicies %s select pod %s, and admit no traffic from other namespaces", c.Type, c.Reason, several(closed), p.Name),
					"Admit the namespace of Prometheus with a NetworkPolicy (deploy/tenant/tenant.yaml has one), unless Prometheus runs in this namespace.", l.in(h.Namespace, "describe", "networkpolicies"))
				break
			}
		}
	}
}

// closed returns the NetworkPolicies that together block all ingress to a pod from other namespaces. It
// returns none if one of them admits something from outside, or if no policy selects the pod.
func closed(l *look, p *corev1.Pod) []string {
	var over []string
	for _, n := range NetworkPolicies.in(l) {
		selector, err := metav1.LabelSelectorAsSelector(&n.Spec.PodSelector)
		if n.Namespace != p.Namespace || err != nil || !selector.Matches(labels.Set(p.Labels)) ||
			len(n.Spec.PolicyTypes) > 0 && !slices.Contains(n.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			continue
		}
		over = append(over, n.Name)
		for _, rule := range n.Spec.Ingress {
			if len(rule.From) == 0 || slices.ContainsFunc(rule.From, func(from networkingv1.NetworkPolicyPeer) bool {
				return from.NamespaceSelector != nil || from.IPBlock != nil
			}) {
				return nil
			}
		}
	}
	slices.Sort(over)
	return over
}
