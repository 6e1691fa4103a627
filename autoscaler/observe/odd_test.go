package observe

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
)

// objects is a fake of a synced cache.
type objects []client.Object

func (all objects) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	items := reflect.ValueOf(into).Elem().FieldByName("Items")
	var of []runtime.Object
	for _, o := range all {
		if reflect.TypeOf(o).Elem() == items.Type().Elem() {
			of = append(of, o)
		}
	}
	return meta.SetList(into, of)
}

func (all objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, o := range all {
		if reflect.TypeOf(o) == reflect.TypeOf(into) && client.ObjectKeyFromObject(o) == key {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o).Elem())
			return nil
		}
	}
	return nil
}

// sized is a fake of the providers: each pool has the size of its spec's min.
type sized struct{}

func (sized) List(_ context.Context, p *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return pools.Listing{Target: int(p.Spec.Min)}, nil
}

func (sized) Learn(*v1alpha1.GPUNodePool, int, []*corev1.Node) pools.Learned { return pools.Learned{} }

// oddWorld has objects of every kind that is read. Pod control/a needs a node of pool control.
//
//go:embed testdata/odd.yaml
var oddWorld string

// control are the first lines of oddWorld, which stay as they are.
const control = 3

// endless is a quantity on whose comparison apimachinery 0.37 does not return. The API server does not store it in our
// kinds; TestAbsurdAmounts tests it in those of others.
const endless = "1e999999999"

// oddValues are what a field is replaced with.
var oddValues = []any{nil, "", "x", "-1", "0", "1e30", "-1e30", "9999999999999999999", "-5m", "2026-13-40T00:00:00Z", "a/b/c", strings.Repeat("y", 300),
	-1, 0, 1 << 31, int64(1) << 62, -(int64(1) << 62), 0.5, 1e300, true, false, []any{}, []any{nil}, []any{map[string]any{}}, map[string]any{}, map[string]any{"": "", "x": "-1"}}

// spoil replaces a random part of a value and returns it, and where.
func spoil(r *rand.Rand, v any, odd []any) (any, string) {
	switch of := v.(type) {
	case map[string]any:
		if len(of) > 0 && r.IntN(12) > 0 {
			keys := make([]string, 0, len(of))
			for key := range of {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			key := keys[r.IntN(len(keys))]
			part, at := spoil(r, of[key], odd)
			of[key] = part
			return of, "." + key + at
		}
	case []any:
		if len(of) > 0 && r.IntN(12) > 0 {
			i := r.IntN(len(of))
			if r.IntN(6) == 0 {
				return append(of, of[i]), fmt.Sprintf("[%d] twice", i)
			}
			part, at := spoil(r, of[i], odd)
			of[i] = part
			return of, fmt.Sprintf("[%d]%s", i, at)
		}
	case string:
		if strings.HasPrefix(of, "{") || strings.HasPrefix(of, "[") { // JSON in an annotation
			var inner any
			if json.Unmarshal([]byte(of), &inner) == nil && r.IntN(12) > 0 {
				inner, at := spoil(r, inner, odd)
				text, _ := json.Marshal(inner)
				return string(text), at
			}
		}
	}
	value := odd[r.IntN(len(odd))]
	return value, fmt.Sprintf(" = %.40v", value)
}

// FuzzOneOddObject: with any contents of a few objects the cluster is observed, and objects that do not pass the
// planner's check can be set apart. A pod that has nothing to do with them gets its node.
func FuzzOneOddObject(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	var whole []unstructured.Unstructured
	var read []any // *foreign.Object, or a typed object
	parse := func(u *unstructured.Unstructured, gvk schema.GroupVersionKind) (any, error) {
		typed, err := kinds.New(gvk)
		if err != nil || gvk.Kind == "PodTemplate" || gvk.Kind == "Deployment" {
			plural, _ := meta.UnsafeGuessKindToResource(gvk)
			return foreign.Parse(foreign.Kind(plural.GroupResource().String()), u), nil
		}
		text, err := json.Marshal(u.Object)
		if err == nil {
			err = json.Unmarshal(text, typed)
		}
		return typed, err
	}
	for line := range strings.SplitSeq(strings.TrimSpace(oddWorld), "\n") {
		var u unstructured.Unstructured
		err := yaml.Unmarshal([]byte(line), &u.Object)
		if err == nil {
			var o any
			if o, err = parse(&u, u.GroupVersionKind()); err == nil {
				whole, read = append(whole, u), append(read, o)
				continue
			}
		}
		f.Fatalf("%v in %s", err, line)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		var typed objects
		others := foreign.Objects{}
		odd := map[int]bool{}
		for seed > 0 && len(odd) < 1+int(seed%3) {
			odd[control+r.IntN(len(whole)-control)] = true
		}
		var did []string
		for i := range whole {
			object := read[i]
			if odd[i] {
				u, gvk := whole[i].DeepCopy(), whole[i].GroupVersionKind()
				delete(u.Object, "apiVersion")
				delete(u.Object, "kind")
				values := oddValues
				if gvk.Group == v1alpha1.GroupVersion.Group {
					values = append(slices.Clip(oddValues), endless)
				}
				_, at := spoil(r, u.Object, values)
				did = append(did, gvk.Kind+" "+whole[i].GetName()+at)
				u.SetGroupVersionKind(gvk)
				var err error
				if object, err = parse(u, gvk); err != nil {
					continue // no such object reaches the cache
				}
			}
			switch o := object.(type) {
			case *foreign.Object:
				others.Add(o)
			case client.Object:
				typed = append(typed, o)
			}
		}
		o := New(Options{
			Cluster: typed, Pools: sized{}, ConfigMap: partition.DefaultConfigMap, Log: slog.New(slog.DiscardHandler),
			Readings: func() *Readings { return oddReadings(r) },
			Foreign: func() (foreign.Objects, error) {
				return others.Resolve([]string{foreign.AtomicScaleUp, foreign.CheckCapacity}), nil
			},
		})
		for range 2 {
			out, err := o.Observe(t.Context(), start)
			if err != nil {
				t.Fatalf("%q: %v", did, err)
			}
			snapshot, problems := out.Contain()
			if err := snapshot.Check(); err != nil {
				t.Fatalf("%q: set apart %v, and still: %v", did, problems, err)
			}
			if seed == 0 && (len(problems) > 0 || len(out.Invalid) > 0) {
				t.Fatalf("the world by itself: %v, %v", problems, out.Invalid)
			}
			made := plan.Make(snapshot, plan.DefaultPolicy())
			if !slices.ContainsFunc(made.Verdicts, func(v plan.Verdict) bool {
				return v.Subject == "control/a" && v.Reason == plan.WaitUpcomingNode
			}) {
				t.Fatalf("%q: control/a gets no node: %v\n%v\n%.3000s", did, problems, out.Invalid, made)
			}
		}
	})
}

// oddReadings are series about node n, of which some have odd values and labels.
func oddReadings(r *rand.Rand) *Readings {
	a := twoHalves(1, "a")
	a.Info = append(a.Info, series(1, "node", "n", "gpu", "1", "gpu_uuid", "GPU-1", "model", "NVIDIA H100 80GB HBM3", "mig", "false"))
	for _, v := range []*prom.Vector{&a.Info, &a.InstanceInfo, &a.Allocated, &a.Age} {
		for i := range *v {
			if r.IntN(8) == 0 {
				labels := (*v)[i].Labels.Map()
				labels[[]string{"gpu", "node", "gpu_uuid", "model", "mig", "profile", "start", "gpu_instance_id"}[r.IntN(8)]] = []string{"", "x", "-1", "1", "64", "7", "NVIDIA L4", "1g.10gb", "true"}[r.IntN(9)]
				(*v)[i] = prom.Sample{Labels: prom.FromMap(labels), Value: []float64{0, 1, -1, 1e300}[r.IntN(4)], Time: start}
			}
		}
	}
	return NewReadings(start.Add(-time.Second), a)
}
