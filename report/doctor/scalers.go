package doctor

import (
	"strings"
)

// target of a scaler.
type target struct{ namespace, kind, name string }

// scalers of each target, and the targets in order of appearance.
func (l *look) scalers() (allocatedTo map[target][]string, order []target) {
	allocatedTo = map[target][]string{}
	put := func(t target, who string) {
		if len(allocatedTo[t]) == 0 {
			order = append(order, t)
		}
		allocatedTo[t] = append(allocatedTo[t], who)
	}
	for _, h := range l.f.HPAs {
		// KEDA's own HPA stands for its ScaledObject.
		if ofKEDA(h) && l.has(ScaledObjects) {
			continue
		}
		put(targetOf(h), "HorizontalPodAutoscaler "+h.Name)
	}
	for _, s := range l.f.ScaledObjects {
		kind := s.Spec.ScaleTargetRef.Kind
		if kind == "" {
			kind = "Deployment"
		}
		put(target{s.Namespace, kind, s.Spec.ScaleTargetRef.Name}, "ScaledObject "+s.Name)
	}
	return allocatedTo, order
}

func targetOf(h *hpa) target {
	return target{h.Namespace, h.Spec.ScaleTargetRef.Kind, h.Spec.ScaleTargetRef.Name}
}

func hpaTwoScalers(l *look) {
	if !l.use(HPAs) {
		return
	}
	l.use(ScaledObjects)
	allocatedTo, order := l.scalers()
	for _, t := range order {
		who := allocatedTo[t]
		if len(who) < 2 {
			continue
		}
		f := Finding{
			Object: t.kind + " " + t.namespace + "/" + t.name, Seen: "scaled by " + named(who),
			Fix: "Keep one: delete the other, or move its metrics into the first.",
		}
		for _, w := range who[1:min(len(who), 3)] {
			kind, name, _ := strings.Cut(w, " ")
			f.Commands = append(f.Commands, l.in(t.namespace, "delete", strings.ToLower(kind), name))
		}
		l.fault(f)
	}
}
