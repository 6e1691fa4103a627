package doctor

import (
	"fmt"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscale/gpuscale/internal/text"
)

// serving reports for each group whether our adapter serves it now: only then is the
// list of its metrics complete.
func (l *look) serving() map[string]bool {
	out := map[string]bool{}
	adapters := l.programs("adapter")
	for _, a := range l.f.APIServices {
		is, _ := l.owned(a, adapters)
		if c := available(a); is && isMetrics(a.Spec.Group) && c != nil && c.Status == apiregistrationv1.ConditionTrue {
			out[a.Spec.Group] = true
		}
	}
	return out
}

// unlisted is what KEDA's server lists in place of its metrics' names (2.21.0). The
// adapter lists what it forwards to.
const unlisted = "externalmetrics"

// served reports whether a group has a metric; known is false where the list is unknown.
func (l *look) served(group, name string) (there, known bool) {
	source, list := CustomMetrics, l.f.CustomMetrics
	if group == groupExternal {
		source, list = ExternalMetrics, l.f.ExternalMetrics
	}
	there = slices.Contains(list, name)
	return there, l.has(source) && (there || !slices.Contains(list, unlisted))
}

// unserved are metrics of an HPA that the adapter, which answers, does not have, by their
// place in it.
func (l *look) unserved(h *hpa, serving map[string]bool) (all []string, places []int) {
	for at, m := range h.Spec.Metrics {
		group, name, _ := metricOf(m)
		if there, known := l.served(group, name); serving[group] && known && !there {
			all, places = append(all, group+" "+name), append(places, at)
		}
	}
	return all, places
}

func hpaMetricUnknown(l *look) {
	hpas := l.hpas()
	if len(hpas) == 0 || len(l.adapters()) == 0 {
		return
	}
	// The list of a group that no HPA uses is not required.
	for group, source := range map[string]*Source{groupCustom: CustomMetrics, groupExternal: ExternalMetrics} {
		if len(asking(hpas, group)) > 0 && !l.has(source) {
			l.cannot("%s", l.f.Missing[source])
		}
	}
	serving := l.serving()
	for _, h := range hpas {
		bad, places := l.unserved(h, serving)
		if len(bad) == 0 {
			continue
		}
		group, name, field := metricOf(h.Spec.Metrics[places[0]])
		list, version := l.f.CustomMetrics, "v1beta2"
		if group == groupExternal {
			list, version = l.f.ExternalMetrics, "v1beta1"
		}
		f := Finding{
			Object: hpaName(h), Seen: "the adapter has no metric " + several(bad),
			Fix:      "Name one that is served (docs/signals.md), or give the adapter a rule for it.",
			Commands: []string{l.kubectl("get", "--raw", "/apis/"+group+"/"+version)},
		}
		if c := condition(h, autoscalingv2.ScalingActive); c != nil && c.Status == corev1.ConditionFalse {
			f.Seen += fmt.Sprintf("; ScalingActive=False, %s: %s", c.Reason, c.Message)
		}
		if near := nearest(name, list); near != "" {
			f.Fix = fmt.Sprintf("Name one that is served, perhaps %s (docs/signals.md), or give the adapter a rule for it.", near)
			f.Commands = append(f.Commands, l.in(h.Namespace, "patch", "hpa", h.Name, "--type=json", "-p",
				fmt.Sprintf(`[{"op":"replace","path":"/spec/metrics/%d/%s/metric/name","value":%q}]`, places[0], field, near)))
		}
		l.fault(f)
	}
}

// nearest returns the name in a list that is most similar, empty for none.
func nearest(name string, list []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, candidate := range list {
		if len(name) > maxName || len(candidate) > maxName {
			continue
		}
		if d := text.Distance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// elsewhere reports whether an HPA's failure has a cause that another check reports: an
// API without a server, or an unknown metric.
func (l *look) elsewhere(h *hpa, reason string, serving map[string]bool) bool {
	if !strings.HasPrefix(reason, "FailedGet") {
		return false
	}
	bad, _ := l.unserved(h, serving)
	return len(bad) > 0 || slices.ContainsFunc(h.Spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		group, _, _ := metricOf(m)
		return group != "" && !serving[group]
	})
}
