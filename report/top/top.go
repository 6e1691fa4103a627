package top

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// Row is a GPU or an instance, and a container it is allocated to; a shared one has a
// row for each. Nil pointers are unknown values.
type Row struct {
	Namespace   string   `json:"namespace,omitempty"`
	Pod         string   `json:"pod,omitempty"`
	Container   string   `json:"container,omitempty"`
	Node        string   `json:"node"`
	GPU         string   `json:"gpu"`
	Profile     string   `json:"profile,omitempty"` // empty for a whole GPU
	Model       string   `json:"model,omitempty"`
	UUID        string   `json:"uuid"`
	State       string   `json:"state"` // busy, idle, allocated (use unknown), free, sick, unknown
	Busy        *float64 `json:"busyRatio"`
	IdleSeconds *float64 `json:"idleSeconds"`
	MemoryUsed  *float64 `json:"memoryUsedBytes"`
	MemoryTotal *float64 `json:"memoryTotalBytes"`
}

// Names of the queries.
const (
	gpus = iota
	instances
	allocatedTo
	health
	attribution
	gpuBusy
	instanceBusy
	idle
	used
	total
	questions
)

// Questions are the queries, for one moment; Rows reads the answers in their order.
func Questions(d query.Dialect) []string {
	entity := metric.LabelGPUUUID + ", " + metric.LabelGPUInstanceID
	podOf := entity + ", " + d.Namespace() + ", " + d.Pod() + ", " + d.Container()
	max := func(labels string, s metric.Desc) string { return "max by (" + labels + ") (" + d.Select(s.Name) + ")" }
	q := make([]string, questions)
	q[gpus] = max(metric.LabelNode+", "+metric.LabelGPU+", "+metric.LabelGPUUUID+", "+metric.LabelModel+", "+metric.LabelMIG, metric.GPUInfo)
	q[instances] = max(metric.LabelNode+", "+metric.LabelGPU+", "+entity+", "+metric.LabelProfile, metric.GPUInstanceInfo)
	q[allocatedTo] = max(podOf, metric.GPUHeld)
	q[health] = "min by (" + metric.LabelGPUUUID + ") (" + d.Select(metric.GPUHealthy.Name) + ")"
	q[attribution] = max(metric.LabelNode, metric.GPUAttributionAgeSeconds)
	q[gpuBusy] = max(entity, metric.GPUBusyRatio)
	q[instanceBusy] = max(entity, metric.GPUInstanceBusyRatio)
	q[idle] = max(podOf, metric.GPUIdleSeconds)
	q[used] = max(entity, metric.GPUMemoryUsedBytes)
	q[total] = max(entity, metric.GPUMemoryTotalBytes)
	return q
}

// idleRatio is the use under which a pod counts as idle.
const idleRatio = 0.01

// maxAge is the age in seconds from which attribution is unknown.
const oldest = 300

// Rows reads the answers: of GPUs allocated to a namespace's pods, or of all if it is
// empty. It also reports whether all is known.
func Rows(answers []prom.Vector, d query.Dialect, namespace string) (rows []Row, complete bool) {
	r := reader{d: d, allocated: map[string][]prom.Sample{}}
	r.read(answers)
	partitioned := map[string]bool{}
	for _, s := range answers[instances] {
		partitioned[s.Labels.Get(metric.LabelGPUUUID)] = true
	}
	model := map[string]string{}
	for _, s := range answers[gpus] {
		uuid := s.Labels.Get(metric.LabelGPUUUID)
		model[uuid] = gpu.ProductName(s.Labels.Get(metric.LabelModel))
		if !partitioned[uuid] {
			rows = append(rows, r.rows(s.Labels, model[uuid])...)
		}
	}
	for _, s := range answers[instances] {
		rows = append(rows, r.rows(s.Labels, model[s.Labels.Get(metric.LabelGPUUUID)])...)
	}
	complete = len(rows) > 0
	for _, row := range rows {
		complete = complete && row.State != "unknown" && row.State != "allocated"
	}
	if namespace != "" {
		rows = slices.DeleteFunc(rows, func(row Row) bool { return row.Namespace != namespace })
	}
	slices.SortStableFunc(rows, compare)
	return rows, complete
}

// compare sorts allocated rows first, by namespace, the longest idle first.
func compare(a, b Row) int {
	if (a.Namespace == "") != (b.Namespace == "") {
		return cmp.Compare(b.Namespace, a.Namespace)
	}
	seconds := func(r Row) float64 {
		if r.IdleSeconds == nil {
			return -1
		}
		return *r.IdleSeconds
	}
	n, _ := strconv.Atoi(a.GPU)
	m, _ := strconv.Atoi(b.GPU)
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), cmp.Compare(seconds(b), seconds(a)), strings.Compare(a.Node, b.Node), cmp.Compare(n, m),
		strings.Compare(a.Profile, b.Profile), strings.Compare(a.Pod, b.Pod))
}

type reader struct {
	d                       query.Dialect
	allocated               map[string][]prom.Sample
	age, health             map[string]float64 // of attribution by node, of GPUs by UUID
	busy, used, total, idle map[string]float64
}

func entity(ls prom.Labels) string {
	return ls.Get(metric.LabelGPUUUID) + "\xff" + ls.Get(metric.LabelGPUInstanceID)
}

func (r *reader) podOf(ls prom.Labels) string {
	return entity(ls) + "\xff" + ls.Get(r.d.Namespace()) + "\xff" + ls.Get(r.d.Pod()) + "\xff" + ls.Get(r.d.Container())
}

func (r *reader) read(answers []prom.Vector) {
	for _, s := range answers[allocatedTo] {
		r.allocated[entity(s.Labels)] = append(r.allocated[entity(s.Labels)], s)
	}
	values := func(key func(prom.Labels) string, vectors ...prom.Vector) map[string]float64 {
		m := map[string]float64{}
		for _, v := range vectors {
			for _, s := range v {
				if !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) {
					m[key(s.Labels)] = s.Value
				}
			}
		}
		return m
	}
	label := func(name string) func(prom.Labels) string { return func(ls prom.Labels) string { return ls.Get(name) } }
	r.age, r.health = values(label(metric.LabelNode), answers[attribution]), values(label(metric.LabelGPUUUID), answers[health])
	r.busy = values(entity, answers[gpuBusy], answers[instanceBusy])
	r.used, r.total = values(entity, answers[used]), values(entity, answers[total])
	r.idle = values(r.podOf, answers[idle])
}

func find(m map[string]float64, key string) *float64 {
	if v, ok := m[key]; ok {
		return &v
	}
	return nil
}

// rows of one GPU or instance.
func (r *reader) rows(ls prom.Labels, model string) []Row {
	at := entity(ls)
	row := Row{
		Node: ls.Get(metric.LabelNode), GPU: ls.Get(metric.LabelGPU), Profile: ls.Get(metric.LabelProfile), Model: model, UUID: ls.Get(metric.LabelGPUUUID),
		Busy: find(r.busy, at), MemoryUsed: find(r.used, at), MemoryTotal: find(r.total, at), State: "free",
	}
	health, reported := r.health[row.UUID]
	age, fresh := r.age[row.Node]
	switch {
	case reported && health == 0:
		row.State = "sick"
	case !fresh || age > oldest:
		row.State = "unknown"
	}
	if len(r.allocated[at]) == 0 {
		return []Row{row}
	}
	var rows []Row
	for _, h := range r.allocated[at] {
		one := row
		one.Namespace, one.Pod, one.Container = h.Labels.Get(r.d.Namespace()), h.Labels.Get(r.d.Pod()), h.Labels.Get(r.d.Container())
		one.IdleSeconds = find(r.idle, r.podOf(h.Labels))
		if one.State == "free" {
			switch {
			case one.Busy == nil && one.IdleSeconds == nil:
				one.State = "allocated"
			case one.IdleSeconds != nil && *one.IdleSeconds > 0, one.IdleSeconds == nil && *one.Busy < idleRatio:
				one.State = "idle"
			default:
				one.State = "busy"
			}
		}
		rows = append(rows, one)
	}
	return rows
}
