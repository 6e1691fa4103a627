package top

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
)

// Row is a GPU or instance with a container that it is allocated to. If several containers share it, each has
// a row. Nil pointers are unknown values.
type Row struct {
	Namespace   string   `json:"namespace,omitempty"`
	Pod         string   `json:"pod,omitempty"`
	Container   string   `json:"container,omitempty"`
	Node        string   `json:"node"`
	GPU         string   `json:"gpu"`
	Profile     string   `json:"profile,omitempty"` // empty for a whole GPU
	Model       string   `json:"model,omitempty"`
	UUID        string   `json:"uuid"`
	State       string   `json:"state"` // busy, idle, allocated (use unknown), free, empty (MIG without an instance), sick, unknown
	Busy        *float64 `json:"busyRatio"`
	IdleSeconds *float64 `json:"idleSeconds"`
	MemoryUsed  *float64 `json:"memoryUsedBytes"`
	MemoryTotal *float64 `json:"memoryTotalBytes"`
}

// idleRatio is the use below which a pod counts as idle. maxAge is the age in seconds after which attribution
// is unknown.
const (
	idleRatio = 0.01
	maxAge    = 300
)

// ErrNoGPUs means that there is no GPU series.
var ErrNoGPUs = fmt.Errorf("Prometheus has no %s: check on its page /targets that it scrapes gpuscale-exporter (port 9400); and what --match and --exporter-namespaces leave out", metric.GPUInfo.Name)

// Read returns what is allocated at one moment to a namespace's pods, or to all pods if the namespace is
// empty. complete is false if something is unknown. The error is of Prometheus, or ErrNoGPUs.
func Read(ctx context.Context, p query.Prometheus, d query.Dialect, at time.Time, namespace string) (rows []Row, complete bool, err error) {
	ask := func(aggregation string, s metric.Desc, labels ...string) (v prom.Vector) {
		if err == nil {
			v, err = p.Query(ctx, aggregation+" by ("+strings.Join(labels, ", ")+") ("+d.Select(s.Name)+")", at)
		}
		return v
	}
	const uuid, instance = metric.LabelGPUUUID, metric.LabelGPUInstanceID
	gpus := ask("max", metric.GPUInfo, metric.LabelNode, metric.LabelGPU, uuid, metric.LabelModel, metric.LabelMIG)
	instances := ask("max", metric.GPUInstanceInfo, metric.LabelNode, metric.LabelGPU, uuid, instance, metric.LabelProfile)
	r := reader{d: d, allocated: map[string][]prom.Sample{}}
	container := []string{uuid, instance, d.Namespace(), d.Pod(), d.Container()}
	for _, s := range ask("max", metric.GPUHeld, container...) {
		r.allocated[entity(s.Labels)] = append(r.allocated[entity(s.Labels)], s)
	}
	label := func(name string) func(prom.Labels) string { return func(ls prom.Labels) string { return ls.Get(name) } }
	r.health = values(label(uuid), ask("min", metric.GPUHealthy, uuid))
	r.age = values(label(metric.LabelNode), ask("max", metric.GPUAttributionAgeSeconds, metric.LabelNode))
	r.busy = values(entity, ask("max", metric.GPUBusyRatio, uuid, instance), ask("max", metric.GPUInstanceBusyRatio, uuid, instance))
	r.idle = values(r.podOf, ask("max", metric.GPUIdleSeconds, container...))
	used := ask("max", metric.GPUMemoryUsedBytes, container...) // containers that share a GPU have their own series
	r.used, r.part = values(entity, used), values(r.podOf, used)
	r.total = values(entity, ask("max", metric.GPUMemoryTotalBytes, uuid, instance))
	if err == nil && len(gpus) == 0 {
		err = ErrNoGPUs
	}
	if err != nil {
		return nil, false, err
	}
	partitioned, model := map[string]bool{}, map[string]string{}
	for _, s := range instances {
		partitioned[s.Labels.Get(uuid)] = true
	}
	for _, s := range gpus {
		model[s.Labels.Get(uuid)] = gpu.ProductName(s.Labels.Get(metric.LabelModel))
		if !partitioned[s.Labels.Get(uuid)] {
			instances = append(instances, s)
		}
	}
	for _, s := range instances {
		rows = append(rows, r.rows(s.Labels, model[s.Labels.Get(uuid)])...)
	}
	complete = !slices.ContainsFunc(rows, func(row Row) bool {
		return row.State == "unknown" || row.State == "allocated" && (namespace == "" || row.Namespace == namespace)
	})
	if namespace != "" {
		rows = slices.DeleteFunc(rows, func(row Row) bool { return row.Namespace != namespace })
	}
	slices.SortStableFunc(rows, compare)
	return rows, complete, nil
}

// compare sorts allocated rows first, by namespace, and then the longest idle first.
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
	age, health             map[string]float64 // age of attribution by node; health of GPUs by UUID
	busy, used, total, idle map[string]float64
	part                    map[string]float64 // share of the memory in use
}

func entity(ls prom.Labels) string {
	return ls.Get(metric.LabelGPUUUID) + "\xff" + ls.Get(metric.LabelGPUInstanceID)
}

func (r *reader) podOf(ls prom.Labels) string {
	return entity(ls) + "\xff" + ls.Get(r.d.Namespace()) + "\xff" + ls.Get(r.d.Pod()) + "\xff" + ls.Get(r.d.Container())
}

// values maps what key returns for a sample's labels to its value.
func values(key func(prom.Labels) string, vectors ...prom.Vector) map[string]float64 {
	m := map[string]float64{}
	for _, s := range slices.Concat(vectors...) {
		if !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) {
			m[key(s.Labels)] = s.Value
		}
	}
	return m
}

func find(m map[string]float64, key string) *float64 {
	if v, ok := m[key]; ok {
		return &v
	}
	return nil
}

// rows returns the rows of one GPU or instance.
func (r *reader) rows(ls prom.Labels, model string) []Row {
	at := entity(ls)
	row := Row{
		Node: ls.Get(metric.LabelNode), GPU: ls.Get(metric.LabelGPU), Profile: ls.Get(metric.LabelProfile), Model: model, UUID: ls.Get(metric.LabelGPUUUID),
		Busy: find(r.busy, at), MemoryUsed: find(r.used, at), MemoryTotal: find(r.total, at), State: "free",
	}
	if row.Profile == "" && ls.Get(metric.LabelMIG) == "true" {
		row.State = "empty" // no pod can get it before it is repartitioned
	}
	health, reported := r.health[row.UUID]
	age, fresh := r.age[row.Node]
	switch {
	case reported && health == 0:
		row.State = "sick"
	case !fresh || age > maxAge:
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
		if part := find(r.part, r.podOf(h.Labels)); part != nil {
			one.MemoryUsed = part
		}
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

// Forms of the output.
var Forms = []string{"table", "wide", "json", "yaml"}

// list is the form of JSON and YAML output.
type list struct {
	Schema int   `json:"schema"`
	Rows   []Row `json:"rows"`
}

// Write writes the rows of a namespace, or (empty) of all namespaces, in one of Forms.
func Write(w io.Writer, rows []Row, namespace, form string) error {
	if rows == nil {
		rows = []Row{}
	}
	switch form {
	case "json":
		return text.JSON(w, list{1, rows})
	case "yaml":
		raw, err := yaml.Marshal(list{1, rows})
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		_, err = w.Write(raw)
		return err
	}
	if len(rows) == 0 {
		nothing := "nothing is allocated"
		if namespace != "" {
			nothing += " to pods of the namespace " + text.Line(namespace)
		}
		_, err := io.WriteString(w, nothing+"\n")
		return err
	}
	return table(w, rows, form == "wide")
}

const dash = "–"

func table(w io.Writer, rows []Row, wide bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	write := func(line, more []string) {
		if wide {
			line = append(line, more...)
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	write([]string{"NAMESPACE", "POD", "NODE", "GPU", "SLICE", "STATE", "USE", "IDLE FOR", "MEMORY"}, []string{"CONTAINER", "MODEL", "UUID"})
	for _, r := range rows {
		profile := cmp.Or(r.Profile, "whole")
		if r.State == "empty" {
			profile = "none"
		}
		line := []string{or(r.Namespace), or(r.Pod), r.Node, r.GPU, profile, r.State, ratio(r.Busy), since(r.IdleSeconds), memory(r), or(r.Container), or(r.Model), r.UUID}
		for i := range line {
			line[i] = text.Line(line[i])
		}
		write(line[:9:9], line[9:])
	}
	return t.Flush()
}

func or(s string) string { return cmp.Or(s, dash) }

func ratio(v *float64) string {
	if v == nil {
		return model.None
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

func since(v *float64) string {
	if v == nil || *v <= 0 {
		return dash
	}
	return duration.HumanDuration(time.Duration(*v) * time.Second)
}

func memory(r Row) string {
	const gib = 1 << 30
	switch {
	case r.MemoryUsed == nil:
		return model.None
	case r.MemoryTotal == nil:
		return fmt.Sprintf("%.1f GiB", *r.MemoryUsed/gib)
	}
	return fmt.Sprintf("%.1f/%.0f GiB", *r.MemoryUsed/gib, *r.MemoryTotal/gib)
}
