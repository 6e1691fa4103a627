package node

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestScenarios plays testdata/*.txt. Commands:
//
//	machine product=P gpus=N [layout="3g.40gb@0 … | …"]
//	config             the mig-parted file is the input
//	bind ns/name resource=N …, gone ns/name
//	label VALUE, wait DURATION
//
// Every command prints what changed: labels set, devices, allocations.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := &world{t: t, now: time.Unix(0, 0)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t, w.out = t, strings.Builder{}
			w.run(d)
			w.show()
			return w.out.String()
		})
	})
}

type world struct {
	t      *testing.T
	now    time.Time
	m      *Machine
	pods   []Pod
	config []byte
	label  string
	out    strings.Builder
	last   string
}

func (w *world) run(d *datadriven.TestData) {
	switch d.Cmd {
	case "machine":
		w.machine(d)
	case "config":
		w.config = []byte(d.Input)
	case "label":
		w.label = d.CmdArgs[0].Key
	case "bind":
		w.bind(d.CmdArgs)
	case "gone":
		for i, p := range w.pods {
			if p.UID == d.CmdArgs[0].Key {
				w.pods = append(w.pods[:i], w.pods[i+1:]...)
				break
			}
		}
	case "wait":
		w.wait(d.CmdArgs[0].Key)
		return
	default:
		w.t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	w.step()
}

func (w *world) machine(d *datadriven.TestData) {
	spec := Spec{Name: "node-a", Delays: DefaultDelays()}
	d.ScanArgs(w.t, "product", &spec.Product)
	d.ScanArgs(w.t, "gpus", &spec.GPUs)
	for _, line := range strings.Split(d.Input, "|") {
		if line == "" {
			continue
		}
		table, _ := mig.ForModel(spec.Product)
		l, err := mig.ParseLayout(table, line)
		require.NoError(w.t, err)
		spec.Layouts = append(spec.Layouts, l)
	}
	m, err := New(spec, w.now)
	require.NoError(w.t, err)
	w.m, w.pods, w.label, w.last = m, nil, "", ""
}

func (w *world) bind(args []datadriven.CmdArg) {
	key := args[0].Key
	namespace, name, _ := strings.Cut(key, "/")
	p := Pod{Namespace: namespace, Name: name, UID: key, Created: w.now}
	c := Container{Name: "main", Requests: map[string]int{}}
	for _, a := range args[1:] {
		var n int
		_, err := fmt.Sscan(a.Vals[0], &n)
		require.NoError(w.t, err)
		c.Requests[a.Key] = n
	}
	p.Containers = []Container{c}
	w.pods = append(w.pods, p)
}

func (w *world) wait(text string) {
	d, err := time.ParseDuration(text)
	require.NoError(w.t, err)
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(250 * time.Millisecond)
		w.step()
	}
}

func (w *world) step() {
	for _, p := range w.m.Sync(w.pods, w.now) {
		fmt.Fprintf(&w.out, "refused %s\n", p.UID)
		for i := range w.pods {
			if w.pods[i].UID == p.UID {
				w.pods = append(w.pods[:i], w.pods[i+1:]...)
				break
			}
		}
	}
	labels := w.m.StepManager(w.label, w.config, w.now)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&w.out, "%-5s %s=%s\n", w.now.Sub(time.Unix(0, 0)), strings.TrimPrefix(k, "nvidia.com/"), labels[k])
	}
}

func (w *world) show() {
	var b strings.Builder
	alloc := w.m.Allocatable(w.now)
	var words []string
	for r, n := range alloc {
		words = append(words, fmt.Sprintf("%s=%d", strings.TrimPrefix(r, "nvidia.com/"), n))
	}
	sort.Strings(words)
	fmt.Fprintf(&b, "allocatable %s\n", strings.Join(words, " "))
	for _, c := range w.m.GPUs() {
		if c.MIG {
			fmt.Fprintf(&b, "GPU %d      %s\n", c.Index, w.m.Table().Format(c.Layout()))
		}
	}
	for _, h := range w.m.Holdings() {
		fmt.Fprintf(&b, "allocated   %s/%s GPU %d instance %d\n", h.Namespace, h.Pod, h.GPU, h.Instance)
	}
	if why := w.m.Failure(); why != "" {
		fmt.Fprintf(&b, "failure     %s\n", why)
	}
	if b.String() != w.last {
		w.out.WriteString(b.String())
		w.last = b.String()
	}
	if w.out.Len() == 0 {
		w.out.WriteString("nothing changes\n")
	}
}
