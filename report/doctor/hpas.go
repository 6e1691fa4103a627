package doctor

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var hpaChecks = []Check{
	{
		ID: "hpa-metric-unknown", Title: "HPAs ask for metrics that are served", Run: hpaMetricUnknown,
		Fault: "An HPA names a metric that the adapter does not have.",
		Means: "It does not scale on it, and with several metrics never down.",
		Looks: []Source{Deployments, DaemonSets, HPAs, APIServices, Services, EndpointSlices, CustomMetrics, ExternalMetrics},
	},
	{
		ID: "hpa-inactive", Title: "HPAs on GPU signals are active", Run: hpaInactive,
		Fault: "`ScalingActive` or `AbleToScale` is False, and not for a metric or an API that other checks speak of.",
		Means: "It holds its replicas, whatever waits.",
		Looks: []Source{Deployments, DaemonSets, HPAs, ScaledObjects, APIServices, Services, EndpointSlices, CustomMetrics, ExternalMetrics},
	},
	{
		ID: "hpa-two-scalers", Title: "One scaler a workload", Run: hpaTwoScalers,
		Fault: "Two HPAs, or an HPA and a ScaledObject of KEDA's, have the same target.",
		Means: "They overrule each other, and the replicas swing.",
		Looks: []Source{HPAs, ScaledObjects},
	},
	{
		ID: "hpa-at-max", Title: "HPAs on GPU signals have room to grow", Run: hpaAtMax,
		Fault: "An HPA wants more than `maxReplicas`.",
		Means: "Requests queue, and no node is bought for replicas that may not be.",
		Looks: []Source{HPAs},
	},
}

type hpa = autoscalingv2.HorizontalPodAutoscaler

func hpaName(h *hpa) string { return "HorizontalPodAutoscaler " + h.Namespace + "/" + h.Name }

// ofOurs reports whether an HPA asks a metrics API that an adapter serves.
func ofOurs(h *hpa) bool {
	return slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		group, _ := metricOf(m)
		return group != ""
	})
}

// hpas that ask a metrics API.
func (l *look) hpas() []hpa {
	if !l.use(HPAs) {
		return nil
	}
	var out []hpa
	for i := range l.f.HPAs {
		if ofOurs(&l.f.HPAs[i]) {
			out = append(out, l.f.HPAs[i])
		}
	}
	if len(out) == 0 {
		l.skip("no HPA asks a metrics API for anything")
	}
	return out
}

func condition(h *hpa, kind autoscalingv2.HorizontalPodAutoscalerConditionType) *autoscalingv2.HorizontalPodAutoscalerCondition {
	for i := range h.Status.Conditions {
		if h.Status.Conditions[i].Type == kind {
			return &h.Status.Conditions[i]
		}
	}
	return nil
}

// serving says of each group whether our adapter answers for it now: only then is the
// list of its metrics the whole list.
func (l *look) serving() map[string]bool {
	out := map[string]bool{}
	adapters := l.programs("adapter")
	for i := range l.f.APIServices {
		a := &l.f.APIServices[i]
		if c := a.available(); IsMetrics(a.Spec.Group) && c != nil && c.Status == metav1.ConditionTrue && l.ownerOf(a, adapters) == us {
			out[a.Spec.Group] = true
		}
	}
	return out
}

// served reports whether a metric of a group is there; known is false where nobody
// can tell.
func (l *look) served(group, name string) (there, known bool) {
	source, list := CustomMetrics, l.f.CustomMetrics
	if group == groupExternal {
		source, list = ExternalMetrics, l.f.ExternalMetrics
	}
	if !l.has(source) || l.f.Absent[source] {
		return false, false
	}
	return slices.Contains(list, name), true
}

// unserved are metrics of an HPA that the adapter, which answers, does not have.
func (l *look) unserved(h *hpa, serving map[string]bool) []string {
	var out []string
	for _, m := range h.Spec.Metrics {
		group, name := metricOf(m)
		if !serving[group] {
			continue
		}
		if there, known := l.served(group, name); known && !there {
			out = append(out, group+" "+name)
		}
	}
	return out
}

func hpaMetricUnknown(l *look) {
	hpas := l.hpas()
	if len(hpas) == 0 || len(l.adapters()) == 0 {
		return
	}
	l.use(APIServices)
	l.use(Services)
	// The list of a group that no HPA asks is not missed.
	for group, source := range map[string]Source{groupCustom: CustomMetrics, groupExternal: ExternalMetrics} {
		if len(asking(hpas, group)) > 0 {
			l.use(source)
		}
	}
	serving := l.serving()
	for i := range hpas {
		h := &hpas[i]
		bad := l.unserved(h, serving)
		if len(bad) == 0 {
			continue
		}
		group, name, _ := strings.Cut(bad[0], " ")
		list := l.f.CustomMetrics
		if group == groupExternal {
			list = l.f.ExternalMetrics
		}
		seen := "the adapter has no metric " + named(bad)
		if c := condition(h, autoscalingv2.ScalingActive); c != nil && c.Status == corev1.ConditionFalse {
			seen += fmt.Sprintf("; ScalingActive=False, %s: %s", c.Reason, c.Message)
		}
		f := Finding{
			Object: hpaName(h), Seen: seen,
			Means: "it does not scale on that metric, and with several metrics it never scales down",
			Fix:   "Name one that is served (docs/signals.md), or give the adapter a rule for it.",
		}
		f.Commands = []string{l.kubectl("get", "--raw", "/apis/"+group+"/"+version(group))}
		if near := nearest(name, list); near != "" {
			f.Fix = fmt.Sprintf("Name one that is served, perhaps %s (docs/signals.md), or give the adapter a rule for it.", near)
			f.Commands = append(f.Commands, l.in(h.Namespace, "patch", "hpa", h.Name, "--type=json", "-p",
				fmt.Sprintf(`[{"op":"replace","path":%q,"value":%q}]`, pathOf(h, group, name), near)))
		}
		l.fault(f)
	}
}

func version(group string) string {
	if group == groupCustom {
		return "v1beta2"
	}
	return "v1beta1"
}

// nearest returns the name in a list that is most like another, empty for none that
// is at all like it.
func nearest(name string, list []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, candidate := range list {
		if d := distance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance counts the letters to change, as Levenshtein does. Long names are not
// compared.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		above := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := above
			if a[i-1] != b[j-1] {
				cost++
			}
			above = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// elsewhere reports whether an HPA's failure has a cause that another check reports:
// an API that nobody answers for, or a metric that nobody has.
func (l *look) elsewhere(h *hpa, reason string, serving map[string]bool) bool {
	if !strings.HasPrefix(reason, "FailedGet") {
		return false
	}
	for _, m := range h.Spec.Metrics {
		group, name := metricOf(m)
		if group == "" {
			continue
		}
		if there, known := l.served(group, name); !serving[group] || known && !there {
			return true
		}
	}
	return false
}

func hpaInactive(l *look) {
	hpas := l.hpas()
	if len(hpas) == 0 {
		return
	}
	l.use(APIServices)
	serving := l.serving()
	holders, _ := l.scalers()
	ours := len(l.programs("adapter")) > 0
	for i := range hpas {
		h := &hpas[i]
		for _, kind := range []autoscalingv2.HorizontalPodAutoscalerConditionType{autoscalingv2.ScalingActive, autoscalingv2.AbleToScale} {
			c := condition(h, kind)
			if c == nil || c.Status != corev1.ConditionFalse || ours && l.elsewhere(h, c.Reason, serving) ||
				c.Reason == "AmbiguousSelector" && len(holders[targetOf(h)]) > 1 {
				continue
			}
			f := Finding{
				Object: hpaName(h), Seen: fmt.Sprintf("%s=False, %s: %s", kind, c.Reason, c.Message),
				Means: "it holds its replicas, whatever waits", Fix: remedy(c.Reason),
				Commands: []string{l.in(h.Namespace, "describe", "hpa", h.Name)},
			}
			if c.Reason == "ScalingDisabled" {
				if toZero(h) {
					continue
				}
				l.warn(f)
				continue
			}
			l.fault(f)
		}
	}
}

// toZero reports whether an HPA may have no replicas.
func toZero(h *hpa) bool { return h.Spec.MinReplicas != nil && *h.Spec.MinReplicas == 0 }

// remedy for a condition's reason.
func remedy(reason string) string {
	switch reason {
	case "FailedGetScale":
		return "Its target is not there, or has no scale: put spec.scaleTargetRef right."
	case "AmbiguousSelector":
		return "Two HPAs select the same pods: take one away."
	case "InvalidSelector", "InvalidMetricSourceType":
		return "Put right what the message names."
	case "ScalingDisabled":
		return "Somebody scaled the target to 0, which switches the HPA off: scale it to 1 to switch it on again, unless that is meant."
	case "FailedUpdateScale":
		return "The HPA controller may not write the target's scale, or something refuses it: see the message."
	}
	if strings.HasPrefix(reason, "FailedGet") {
		return "The metric is known and has no value for these pods: have the adapter say why (gpuscale-adapter explain hpa, docs/explain.md), and see that their exporter or server is scraped."
	}
	return "See the message."
}

// target of a scaler.
type target struct{ namespace, kind, name string }

// scalers of each target, and the targets in the order in which they were met.
func (l *look) scalers() (holders map[target][]string, order []target) {
	holders = map[target][]string{}
	put := func(t target, who string) {
		if len(holders[t]) == 0 {
			order = append(order, t)
		}
		holders[t] = append(holders[t], who)
	}
	for i := range l.f.HPAs {
		h := &l.f.HPAs[i]
		// KEDA's own HPA stands for its ScaledObject.
		if slices.ContainsFunc(h.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "ScaledObject" }) && l.has(ScaledObjects) {
			continue
		}
		put(targetOf(h), "HorizontalPodAutoscaler "+h.Name)
	}
	for i := range l.f.ScaledObjects {
		s := &l.f.ScaledObjects[i]
		kind := s.Spec.ScaleTargetRef.Kind
		if kind == "" {
			kind = "Deployment"
		}
		put(target{s.Namespace, kind, s.Spec.ScaleTargetRef.Name}, "ScaledObject "+s.Name)
	}
	return holders, order
}

func targetOf(h *hpa) target {
	return target{h.Namespace, h.Spec.ScaleTargetRef.Kind, h.Spec.ScaleTargetRef.Name}
}

func hpaTwoScalers(l *look) {
	if !l.use(HPAs) {
		return
	}
	l.use(ScaledObjects)
	holders, order := l.scalers()
	for _, t := range order {
		who := holders[t]
		if len(who) < 2 {
			continue
		}
		f := Finding{
			Object: t.kind + " " + t.namespace + "/" + t.name, Seen: "scaled by " + named(who),
			Means: "they overrule each other: the replicas swing, or stay where the last one put them",
			Fix:   "Keep one: delete the other, or move its metrics into the first.",
		}
		for _, w := range who[1:min(len(who), 3)] {
			kind, name, _ := strings.Cut(w, " ")
			f.Commands = append(f.Commands, l.in(t.namespace, "delete", strings.ToLower(kind), name))
		}
		l.fault(f)
	}
}

func hpaAtMax(l *look) {
	hpas := l.hpas()
	for i := range hpas {
		h := &hpas[i]
		c := condition(h, autoscalingv2.ScalingLimited)
		if c == nil || c.Status != corev1.ConditionTrue || c.Reason != "TooManyReplicas" || h.Status.CurrentReplicas < h.Spec.MaxReplicas {
			continue
		}
		l.warn(Finding{
			Object: hpaName(h), Seen: fmt.Sprintf("ScalingLimited=True, %s, at maxReplicas %d: %s", c.Reason, h.Spec.MaxReplicas, c.Message),
			Means:    "it wants more replicas than it may have: requests queue, and no node is bought for replicas that may not be",
			Fix:      "Raise maxReplicas, if there may be more.",
			Commands: []string{l.patch(h.Namespace, "hpa", h.Name, fmt.Sprintf(`{"spec":{"maxReplicas":%d}}`, more(h.Spec.MaxReplicas)))},
		})
	}
}

// more is half as much again, at least one.
func more(n int32) int32 { return n + max(1, n/2) }

func kubeState(l *look) {
	if !l.use(HPAs) {
		return
	}
	var users []string
	for i := range l.f.HPAs {
		for _, m := range l.f.HPAs[i].Spec.Metrics {
			if _, name := metricOf(m); strings.HasPrefix(name, "kube_") {
				users = append(users, l.f.HPAs[i].Namespace+"/"+l.f.HPAs[i].Name)
				break
			}
		}
	}
	if len(users) == 0 {
		return // no part of gpuscale needs one of its series
	}
	v, known := l.answer(KubeState)
	if known && len(v) == 0 {
		l.warn(Finding{
			Object: "Prometheus", Seen: "kube_pod_info has no series; metrics that begin with kube_ are asked for by HPA " + named(users),
			Means:    "those HPAs do not scale; no board, rule, alert, signal or report of gpuscale needs these series",
			Fix:      "Install kube-state-metrics and have it scraped, or scale on something else.",
			Commands: []string{l.kubectl("get", "pods", "-A", "-l", "app.kubernetes.io/name=kube-state-metrics")},
		})
	}
}

// pathOf is where an HPA names a metric, as a JSON pointer.
func pathOf(h *hpa, group, name string) string {
	for i, m := range h.Spec.Metrics {
		if g, n := metricOf(m); g != group || n != name {
			continue
		}
		field := map[bool]string{true: "pods", false: "external"}[m.Pods != nil]
		if m.Object != nil {
			field = "object"
		}
		return fmt.Sprintf("/spec/metrics/%d/%s/metric/name", i, field)
	}
	return ""
}
