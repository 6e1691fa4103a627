package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// pod declares, changes or removes a pod.
func (w *World) pod(x *fields, key string) error {
	if x.has("gone") {
		w.pods = nil
		if !w.Sim.RemovePod(key) {
			return fmt.Errorf("there is no pod %s", key)
		}
		return nil
	}
	namespace, name, err := keyOf(key)
	if err != nil {
		return err
	}
	state := &w.Sim.State
	i, ok := w.podIndex()[key]
	if !ok {
		i = len(state.Pods)
		w.pods[key] = i
		state.Pods = append(state.Pods, plan.Pod{Namespace: namespace, Name: name, Created: state.Now, PendingSince: state.Now})
	}
	podFields(x, &state.Pods[i])
	return nil
}

func keyOf(key string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		err = fmt.Errorf("want namespace/name: %q", key)
	}
	return namespace, name, err
}

// podIndex is the index of each pod. It is kept from one pod line to the next,
// so that a file of many pods is read in linear time.
func (w *World) podIndex() map[string]int {
	if w.pods == nil {
		w.pods = make(map[string]int, len(w.Sim.State.Pods))
		for i := range w.Sim.State.Pods {
			w.pods[w.Sim.State.Pods[i].Key()] = i
		}
	}
	return w.pods
}

// podFields are the fields of a pod. They are read over what the pod has already.
func podFields(x *fields, p *plan.Pod) {
	requestsOfPod(x, p)
	x.string("node", &p.Node)
	if x.out == nil {
		p.Unschedulable = p.Node == ""
	}
	x.either("unschedulable", "unmarked", &p.Unschedulable, p.Node == "")
	if x.timeUnless(false, "pending", &p.PendingSince, ago) {
		p.Created = p.PendingSince
	}
	x.timeUnless(p.Created.Equal(p.PendingSince), "age", &p.Created, ago)
	x.either("unmade", "made", &p.Unmade, false)
	if x.timeUnless(!p.Leaving, "leaving", &p.LeavesAt, in) {
		p.Leaving = true
	}
	if x.out == nil && x.has("staying") {
		p.Leaving, p.LeavesAt = false, time.Time{}
	}
	shapeFields(x, p)
	x.flag("evictable", &p.Evictable)
	x.string("pinned", &p.Pinned)
	x.flag("local-storage", &p.LocalStorage)
	x.time("evict-from", &p.EvictFrom, in)
	list(x, "budgets", &p.Budgets, func(x *fields, b *plan.Budget) {
		x.word(&b.Name)
		if !x.count("allowed", &b.Allowed) && x.out == nil {
			x.fail("allowed", "want it: a budget is namespace/name:allowed=1")
		}
	})
	x.flag("daemonset", &p.DaemonSet)
	list(x, "parts-on", &p.PartsOn, func(x *fields, index *int) {
		x.head(func() string { return strconv.Itoa(*index) }, func(s string) error {
			n, err := strconv.ParseUint(s, 10, 16)
			*index = int(n)
			return err
		})
	})
}

// requestsOfPod and shapeFields are a pod's requests, placement rules and tenant:
// what the replicas of a forecast have too.
func requestsOfPod(x *fields, p *plan.Pod) {
	demandFields(x, len(requestsOf(p.Demand)) == 0, "requests", &p.Demand)
	x.string("unreadable", &p.Unreadable)
}

func shapeFields(x *fields, p *plan.Pod) {
	x.string("owner", &p.Owner)
	integer(x, "priority", &p.Priority, p.Priority == 0)
	x.quantity("cpu", &p.CPUMilli, cpuUnits)
	x.quantity("memory", &p.MemoryMi, memoryUnits)
	x.labels("selector", &p.NodeSelector)
	affinityFields(x, &p.Affinity)
	list(x, "tolerations", &p.Tolerations, func(x *fields, t *plan.Toleration) {
		x.pair(&t.Key, &t.Value)
		x.string("op", &t.Operator)
		x.string("effect", &t.Effect)
	})
	resourceFields(x, &p.Others)
	portFields(x, &p.HostPorts)
	reachFields(x, "volumes", &p.Volumes)
	reachFields(x, "devices", &p.Devices)
	x.names("data", &p.Data)
	x.string("unbound", &p.Unbound)
	ruleFields(x, p)
	x.string("tenant", &p.Tenant)
	x.string("gang", &p.Gang)
	x.int("gang-min", &p.GangMin)
}

// forecast declares, changes or removes the forecast of a workload.
func (w *World) forecast(x *fields, key string) error {
	namespace, name, err := keyOf(key)
	if err != nil {
		return err
	}
	is := func(f plan.Forecast) bool { return f.Name == key }
	f, gone, err := declared(x, &w.Sim.State.Forecasts, key, is, func() (plan.Forecast, error) {
		return plan.Forecast{Name: key, Like: plan.Pod{Namespace: namespace, Name: name}}, nil
	})
	if err == nil && !gone {
		forecastFields(x, f)
	}
	return err
}

func forecastFields(x *fields, f *plan.Forecast) {
	requestsOfPod(x, &f.Like)
	x.int("have", &f.Have)
	x.float("low", &f.Low)
	x.float("expected", &f.Expected)
	x.float("high", &f.High)
	x.time("at", &f.At, in)
	x.float("error", &f.Error)
	x.string("unsure", &f.Unsure)
	shapeFields(x, &f.Like)
}
