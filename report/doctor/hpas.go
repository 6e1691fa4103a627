package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/internal/text"
)

var hpaChecks = []Check{
	{
		ID: "hpa-metric-unknown", Title: "The adapter serves the metrics that HPAs use", Run: hpaMetricUnknown,
		Fault: "An HPA uses a metric that the adapter does not have.",
		Means: "The HPA does not scale by this metric. If it has several metrics, it never scales down.",
		Looks: from(Deployments, DaemonSets, HPAs, APIServices, Services), May: from(CustomMetrics, ExternalMetrics),
	},
	{
		ID: "hpa-inactive", Title: "HPAs on GPU metrics are active", Run: hpaInactive,
		Fault: "The condition `ScalingActive` or `AbleToScale` of an HPA is False, for a reason that no other check reports.",
		Means: "The HPA keeps its number of replicas, whatever the load is.",
		Looks: from(Deployments, DaemonSets, HPAs, APIServices), May: from(ScaledObjects, Services, CustomMetrics, ExternalMetrics),
	},
	{
		ID: "hpa-two-scalers", Title: "Each workload has one scaler", Run: hpaTwoScalers,
		Fault: "Two HPAs, or an HPA and a ScaledObject of KEDA, scale the same workload.",
		Means: "Each overrides the other, and the number of replicas oscillates.",
		Looks: from(HPAs), Also: from(ScaledObjects),
	},
	{
		ID: "hpa-at-max", Title: "HPAs on GPU metrics are below their maximum", Run: hpaAtMax,
		Fault: "An HPA needs more replicas than its `maxReplicas`.",
		Means: "Requests queue, and no node is added for replicas above the maximum.",
		Looks: from(Deployments, DaemonSets, HPAs, APIServices), May: from(Services),
	},
}

func hpaName(h *hpa) string { return "HorizontalPodAutoscaler " + h.Namespace + "/" + h.Name }

// hpas returns the HPAs that use a metrics API for which our adapter is registered. HPAs of other servers are
// left out.
func hpas(l *look) (out []*hpa, r registry) {
	if r = registered(l); len(r.adapters) == 0 {
		return nil, r
	}
	for _, h := range HPAs.in(l) {
		if slices.ContainsFunc(r.ours, func(a *apiService) bool { return len(asking([]*hpa{h}, a.Spec.Group)) > 0 }) {
			out = append(out, h)
		}
	}
	return orSkip(l, out, "no HPA uses a metrics API that gpuscale's adapter serves"), r
}

func condition(h *hpa, kind autoscalingv2.HorizontalPodAutoscalerConditionType) *autoscalingv2.HorizontalPodAutoscalerCondition {
	return the(h.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
}

func hpaInactive(l *look) {
	hpas, r := hpas(l)
	if len(hpas) == 0 {
		return
	}
	scalers := scalers(l)
	for _, h := range hpas {
		for _, kind := range []autoscalingv2.HorizontalPodAutoscalerConditionType{autoscalingv2.ScalingActive, autoscalingv2.AbleToScale} {
			c := condition(h, kind)
			if c == nil || c.Status != corev1.ConditionFalse || elsewhere(l, r, h, c.Reason) ||
				c.Reason == "AmbiguousSelector" && len(scalers[targetOf(h)]) > 1 {
				continue
			}
			add := l.fault
			if c.Reason == "ScalingDisabled" {
				if add = l.warn; orOne(h.Spec.MinReplicas) == 0 || ofKEDA(h) {
					continue
				}
			}
			add(hpaName(h), fmt.Sprintf("%s=False, %s: %s", kind, c.Reason, c.Message), remedy(h, c.Reason), l.in(h.Namespace, "describe", "hpa", h.Name))
		}
	}
}

// ofKEDA reports whether KEDA created an HPA for a ScaledObject. KEDA itself scales the target to 0 when
// nothing is queued. Its HPA has a minimum of 1 and is disabled meanwhile.
func ofKEDA(h *hpa) bool {
	return slices.ContainsFunc(h.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "ScaledObject" })
}

// remedies says what to do, by the reason of an HPA's condition.
var remedies = map[string]string{
	"FailedGetScale":    "The target does not exist, or has no scale subresource: correct spec.scaleTargetRef.",
	"AmbiguousSelector": "Two HPAs select the same pods: delete one of them.",
	"ScalingDisabled":   "The target has 0 replicas, which switches the HPA off. Scale it to 1 to switch the HPA on again, unless this is intended.",
	"FailedUpdateScale": "The HPA controller could not change the target's replicas: remove the cause that the message names.",
}

func remedy(h *hpa, reason string) string {
	if remedies[reason] == "" && strings.HasPrefix(reason, "FailedGet") {
		return "The adapter has the metric, but no value for these pods. Run gpuscale-adapter explain hpa " + h.Namespace + "/" + h.Name + ": it shows where the value is lost (docs/explain.md)."
	}
	return cmp.Or(remedies[reason], "Correct the HPA as the message says.")
}

func hpaAtMax(l *look) {
	hpas, _ := hpas(l)
	for _, h := range hpas {
		c := condition(h, autoscalingv2.ScalingLimited)
		if c == nil || c.Status != corev1.ConditionTrue || c.Reason != "TooManyReplicas" || h.Status.CurrentReplicas < h.Spec.MaxReplicas {
			continue
		}
		l.warn(hpaName(h), fmt.Sprintf("ScalingLimited=True, %s, at maxReplicas %d: %s", c.Reason, h.Spec.MaxReplicas, c.Message), "Raise maxReplicas, if the workload may have more replicas.",
			l.patch(h.Namespace, "hpa", h.Name, fmt.Sprintf(`{"spec":{"maxReplicas":%d}}`, h.Spec.MaxReplicas+max(1, h.Spec.MaxReplicas/2))))
	}
}

// scalers returns the objects that scale each target, by the target's kind and name.
func scalers(l *look) map[string][]string {
	all := map[string][]string{}
	for _, h := range HPAs.in(l) {
		if t := targetOf(h); !ofKEDA(h) || !l.has(ScaledObjects) { // a ScaledObject stands for the HPA that KEDA made for it
			all[t] = append(all[t], "HorizontalPodAutoscaler "+h.Name)
		}
	}
	for _, s := range ScaledObjects.in(l) {
		t := cmp.Or(s.Spec.ScaleTargetRef.Kind, "Deployment") + " " + s.Namespace + "/" + s.Spec.ScaleTargetRef.Name
		all[t] = append(all[t], "ScaledObject "+s.Name)
	}
	return all
}

func targetOf(h *hpa) string {
	return h.Spec.ScaleTargetRef.Kind + " " + h.Namespace + "/" + h.Spec.ScaleTargetRef.Name
}

func hpaTwoScalers(l *look) {
	scalers := scalers(l)
	for _, t := range slices.Sorted(maps.Keys(scalers)) {
		who := scalers[t]
		_, namespaced, _ := strings.Cut(t, " ")
		namespace, _, _ := strings.Cut(namespaced, "/")
		if len(who) < 2 {
			continue
		}
		var commands []string
		for _, w := range who[1:min(len(who), 3)] {
			kind, name, _ := strings.Cut(w, " ")
			commands = append(commands, l.in(namespace, "delete", strings.ToLower(kind), name))
		}
		l.fault(t, "several objects scale it: "+several(who), "Keep one of them, and move the metrics of the others into it. The command deletes the others.", commands...)
	}
}

// unlisted is the name that KEDA's server lists in place of its metrics' names (2.21.0). The adapter lists
// this name too if it forwards to KEDA.
const unlisted = "externalmetrics"

// metricsOf returns the source of a group's metrics, and their names: "pods/queue_depth" becomes queue_depth.
func metricsOf(l *look, group string) (of kind[metav1.APIResource], names []string) {
	if of = CustomMetrics; group == groupExternal {
		of = ExternalMetrics
	}
	for _, m := range of.in(l) {
		names = append(names, m.Name[strings.LastIndexByte(m.Name, '/')+1:])
	}
	return of, names
}

// unserved returns the metrics of an HPA that the adapter does not have, and their positions in the HPA. It
// is only for an adapter that answers.
func unserved(l *look, r registry, h *hpa) (all []string, places []int) {
	for at, m := range h.Spec.Metrics {
		group, name, _ := metricOf(m)
		if of, names := metricsOf(l, group); r.serves(group) && l.has(of) && !slices.Contains(names, name) && !slices.Contains(names, unlisted) {
			all, places = append(all, group+" "+name), append(places, at)
		}
	}
	return all, places
}

func hpaMetricUnknown(l *look) {
	hpas, r := hpas(l)
	// A group that no HPA uses need not be readable.
	for _, group := range []string{groupCustom, groupExternal} {
		if of, _ := metricsOf(l, group); len(asking(hpas, group)) > 0 {
			l.needs(of)
		}
	}
	for _, h := range hpas {
		bad, places := unserved(l, r, h)
		if len(bad) == 0 {
			continue
		}
		group, name, field := metricOf(h.Spec.Metrics[places[0]])
		of, names := metricsOf(l, group)
		seen, perhaps, patch := "the adapter does not have the metric "+several(bad), "", ""
		if c := condition(h, autoscalingv2.ScalingActive); c != nil && c.Status == corev1.ConditionFalse {
			seen += fmt.Sprintf("; ScalingActive=False, %s: %s", c.Reason, c.Message)
		}
		if near := nearest(name, names); near != "" {
			perhaps, patch = ", perhaps "+near, l.in(h.Namespace, "patch", "hpa", h.Name, "--type=json", "-p",
				fmt.Sprintf(`[{"op":"replace","path":"/spec/metrics/%d/%s/metric/name","value":%q}]`, places[0], field, near))
		}
		l.fault(hpaName(h), seen, "Use a metric that the adapter has"+perhaps+" (docs/signals.md; the first command lists all), or add a rule for this one to the adapter's configuration.", l.kubectl("get", "--raw", of.Paths[0]), patch)
	}
}

// nearest returns the most similar name in a list, or "".
func nearest(name string, list []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, candidate := range list {
		if d := text.Distance(clean(name, maxName), clean(candidate, maxName)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// elsewhere reports whether another check reports the cause of an HPA's failure: an API without a server, or
// an unknown metric.
func elsewhere(l *look, r registry, h *hpa, reason string) bool {
	if !strings.HasPrefix(reason, "FailedGet") {
		return false
	}
	bad, _ := unserved(l, r, h)
	return len(bad) > 0 || slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		group, _, _ := metricOf(m)
		return group != "" && !r.serves(group)
	})
}
