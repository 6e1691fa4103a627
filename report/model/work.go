package model

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// workKey identifies a workload, with the profile and the model (gpu.ProductName) allocated to its pods.
type workKey struct {
	namespace, name, profile, model string
}

// work is what was allocated to a workload's pods, on the coarse grid.
type work struct {
	workKey
	kind      string               // Deployment, StatefulSet, Pod, or "controller" for other kinds
	pattern   string               // matches the names of its pods
	allocated map[string][]float64 // share of each GPU or instance
	idle      map[string][]float64
	memory    float64    // 99th percentile, bytes; NaN for unknown
	use       float64    // 95th percentile, of what is allocated
	fits      *RightSize // nil if no smaller instance fits
}

// Controllers append characters to pod names that form no words.
var (
	ofDeployment = regexp.MustCompile(`^(.+)-[a-f0-9]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$|^(.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	ofSet        = regexp.MustCompile(`^(.+)-[0-9]+$`)
	ofTraining   = regexp.MustCompile(`-(master|worker|launcher|chief|ps|evaluator)-[0-9]+$`) // Kubeflow and others
	ofController = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

// Owner guesses a pod's owner from its name, since Prometheus does not know owners. The report marks it as a
// guess. The pattern matches the names of the owner's pods.
func Owner(pod string) (name, kind, pattern string) {
	const tail = "-[bcdfghjklmnpqrstvwxz2456789]{5}"
	if m := ofDeployment.FindStringSubmatch(pod); m != nil {
		name = m[1] + m[2]
		return name, "Deployment", regexp.QuoteMeta(name) + "-[a-z0-9]{6,10}" + tail
	}
	if m := ofSet.FindStringSubmatch(pod); m != nil {
		if kind = "StatefulSet"; ofTraining.MatchString(pod) {
			kind = "controller"
		}
		return m[1], kind, regexp.QuoteMeta(m[1]) + "-[0-9]+"
	}
	if m := ofController.FindStringSubmatch(pod); m != nil {
		return m[1], "controller", regexp.QuoteMeta(m[1]) + tail
	}
	return pod, "Pod", regexp.QuoteMeta(pod)
}

// workloads collects the exporter's series by workload and model.
func workloads(a answers) map[workKey]*work {
	all, d := map[workKey]*work{}, a.Dialect
	of := func(ls prom.Labels) *work {
		name, kind, pattern := Owner(ls.Get(d.Pod()))
		key := workKey{ls.Get(d.Namespace()), name, ls.Get(metric.LabelProfile), gpu.ProductName(a.models[ls.Get(metric.LabelGPUUUID)])}
		return entry(all, key, work{
			workKey: key, kind: kind, pattern: pattern,
			allocated: map[string][]float64{}, idle: map[string][]float64{}, memory: math.NaN(), use: math.NaN(),
		})
	}
	mark := func(id query.ID, field func(*work) map[string][]float64) {
		for _, l := range a.Lines[id] {
			where := field(of(l.Labels))
			entity := l.Labels.Get(metric.LabelGPUUUID) + "/" + l.Labels.Get(metric.LabelGPUInstanceID)
			if where[entity] == nil {
				where[entity] = make([]float64, a.coarse.N+1)
			}
			for i, v := range a.values(l) {
				if !math.IsNaN(v) && i > 0 {
					where[entity][i] += v
				}
			}
		}
	}
	mark(query.AllocatedTo, func(w *work) map[string][]float64 { return w.allocated })
	mark(query.IdleFor, func(w *work) map[string][]float64 { return w.idle })
	most := func(id query.ID, field func(*work) *float64) {
		for _, l := range a.Lines[id] {
			f := field(of(l.Labels))
			if v := l.Points[0].Value; !math.IsNaN(v) && !(v <= *f) {
				*f = v
			}
		}
	}
	most(query.MemoryP99, func(w *work) *float64 { return &w.memory })
	most(query.UseP95, func(w *work) *float64 { return &w.use })
	most(query.InstUseP95, func(w *work) *float64 { return &w.use })
	return all
}

// markedHours returns hours: the sum of allocated shares, the sum of whole GPUs or instances, and the hours
// of the one with the most.
func (a answers) markedHours(marked map[string][]float64) (parts, whole, longest float64) {
	step := a.coarse.Step.Hours()
	for _, steps := range marked {
		n := 0
		for _, part := range steps {
			if parts += part * step; part > 0 {
				n++
			}
		}
		whole += float64(n) * step
		longest = max(longest, float64(n)*step)
	}
	return parts, whole, longest
}

// atEnd reports whether anything was marked in the last two steps of the window.
func atEnd(marked map[string][]float64) bool {
	for _, steps := range marked {
		if n := len(steps); n > 0 && steps[n-1]+steps[max(0, n-2)] > 0 {
			return true
		}
	}
	return false
}

func (w *work) part() float64 { return ledger.Part(w.model, w.profile) }

// things names what is allocated to the workload's pods: a profile, or "whole GPU".
func (w *work) things(one string) string {
	if w.model == "" {
		return one
	}
	return one + " (" + w.model + ")"
}

// proof is the query behind a figure of the workload: its allocations on GPUs of this model, times a factor.
func (w *work) proof(a answers, allocations func(matchers ...string) string, factor float64) string {
	var names []string // the driver's names of the model
	for _, name := range a.models {
		if gpu.ProductName(name) == w.model {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	expression := allocations(w.matchers(a.Dialect)...)
	if len(names) > 0 {
		slices.Sort(names)
		expression = "(" + expression + ") and on (" + metric.LabelGPUUUID + ") " +
			a.Dialect.Select(metric.GPUInfo.Name, query.Like(metric.LabelModel, strings.Join(slices.Compact(names), "|")))
	}
	return sampled(a.Window, expression, factor)
}

// matchers selects the series of the workload's pods.
func (w *work) matchers(d query.Dialect) []string {
	profile := query.Equal(metric.LabelGPUInstanceID, "")
	if w.profile != "" {
		profile = query.Equal(metric.LabelProfile, w.profile)
	}
	return []string{query.Equal(d.Namespace(), w.namespace), query.Like(d.Pod(), w.pattern), profile}
}

// sortedWork returns the workloads sorted by name.
func sortedWork(all map[workKey]*work) []*work {
	return slices.SortedFunc(maps.Values(all), func(a, b *work) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name), strings.Compare(a.profile, b.profile), strings.Compare(a.model, b.model))
	})
}
