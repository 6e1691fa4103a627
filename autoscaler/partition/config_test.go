package partition

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
)

// h100 returns GPU index of an H100 with a layout in words, "-" for no MIG.
func h100(t *testing.T, index int, layout string) plan.GPU {
	t.Helper()
	model, ok := gpu.ParseProduct("H100-80GB")
	if !ok {
		t.Fatal("no model")
	}
	c := plan.GPU{Device: gpu.Device{Index: index, Model: model}, AllocationKnown: true}
	if layout == "-" {
		return c
	}
	table, _ := mig.ForModel(model.Name)
	l, err := mig.ParseLayout(table, layout)
	require.NoError(t, err)
	c.MIG = true
	for _, p := range l {
		c.Instances = append(c.Instances, plan.Instance{Placement: p, Placed: true})
	}
	return c
}

func TestConfigGolden(t *testing.T) {
	gpus := []plan.GPU{
		h100(t, 2, "-"),
		h100(t, 0, "3g.40gb@0 3g.40gb@4"),
		h100(t, 1, "1g.10gb@0 1g.10gb@1 1g.10gb+me@2"),
		h100(t, 3, "3g.40gb@4 3g.40gb@0"),
		h100(t, 4, "empty"),
	}
	layout, err := Names{}.LayoutOf(nil, gpus)
	require.NoError(t, err)
	c := Config{Version: ConfigVersion, MIGConfigs: map[string][]Entry{layout.Name(): layout.Entries()}}
	golden.Equal(t, "testdata/node.yaml", c.String())
	back, err := ParseConfig(c.String())
	require.NoError(t, err)
	if got := back.MIGConfigs[layout.Name()]; !reflect.DeepEqual(got, layout.Entries()) {
		t.Errorf("read back: %+v", got)
	}
	if got := layout.Resources(); !reflect.DeepEqual(got, map[string]int64{"nvidia.com/mig-3g.40gb": 4, "nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-1g.10gb.me": 1, "nvidia.com/gpu": 1}) {
		t.Errorf("resources = %v", got)
	}
}

// TestOthersEntriesSurvive: foreign entries of mig-parted's file are read and written unchanged.
func TestOthersEntriesSurvive(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "others.yaml"))
	require.NoError(t, err)
	c, err := ParseConfig(string(text))
	require.NoError(t, err)
	again, err := ParseConfig(c.String())
	require.NoError(t, err)
	if !reflect.DeepEqual(c, again) {
		t.Errorf("lost something:\n%+v\n%+v", c, again)
	}
	if l := c.Layout("all-1g.10gb", 6); len(l) != 6 || !l[5].MIG || l[5].Counts["1g.10gb"] != 7 {
		t.Errorf("all-1g.10gb: %v", l)
	}
	// A filtered entry does not show a GPU's layout for certain.
	for name, want := range map[string]bool{"all-balanced": false, "all-disabled": true} {
		if l := c.Layout(name, 1); (l != nil) != want || want && l[0].MIG {
			t.Errorf("%s: %v", name, l)
		}
	}
}

func TestParseConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		"version: v2\nmig-configs: {}":                                                                  `version "v2"`,
		"version: v1\nmig-configs: {a: [{devices: [-1], mig-enabled: true}]}":                           "GPU index -1",
		"version: v1\nmig-configs: {a: [{devices: some, mig-enabled: true}]}":                           `want "all"`,
		"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}]}": "mig-configs.a[0].mig-devices.1g.5gb",
		"version: v1\nmig-configs: {a: [{device: all}]}":                                                "device",
		strings.Repeat("#", maxConfigBytes+1):                                                           "at most",
	} {
		if _, err := ParseConfig(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: err = %v, want %q in it", text, err, want)
		}
	}
}

func TestNameDependsOnCountsOnly(t *testing.T) {
	a, _ := Names{}.LayoutOf(nil, []plan.GPU{h100(t, 0, "1g.10gb@0"), h100(t, 1, "-")})
	b, _ := Names{}.LayoutOf(nil, []plan.GPU{h100(t, 1, "-"), h100(t, 0, "1g.10gb@6")})
	c, _ := Names{}.LayoutOf(nil, []plan.GPU{h100(t, 1, "1g.10gb@6"), h100(t, 0, "-")})
	if a.Name() != b.Name() || a.Name() == c.Name() {
		t.Errorf("%s, other placements %s, another GPU %s", a.Name(), b.Name(), c.Name())
	}
	if len(a.Name()) != len("gpuscale-")+10 {
		t.Errorf("name %q: want gpuscale- and ten digits", a.Name())
	}
	if n := otherName(strings.Repeat("x", 63)); len(n) > 63 {
		t.Errorf("%q is too long for a label", n)
	}
}

func TestLayoutOfRefusesGaps(t *testing.T) {
	for what, gpus := range map[string][]plan.GPU{"GPU 1 of one GPU": {h100(t, 1, "-")}, "GPU 0 twice": {h100(t, 0, "-"), h100(t, 0, "-")}} {
		if _, err := (Names{}).LayoutOf(nil, gpus); err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, name := range []string{"node.yaml", "others.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Add("version: v1")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		again, err := ParseConfig(c.String())
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, c)
		}
		if c.String() != again.String() {
			t.Fatalf("not stable:\n%s\n%s", c, again)
		}
		for name := range c.MIGConfigs {
			c.Layout(name, 1)
		}
	})
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// agentNode is a node with a selected operation for its agent.
func agentNode() (*corev1.Node, contract.Record) {
	r := contract.Record{ID: "op", Model: "H100-80GB", Actuator: contract.ActuatorAgent, Target: "3g.40gb@0", Before: "1g.10gb@0",
		Expect: map[string]int64{"nvidia.com/mig-3g.40gb": 1}, Was: map[string]int64{"nvidia.com/mig-1g.10gb": 1},
		Cordoned: true, Started: noon, Deadline: noon.Add(time.Minute), Selected: true}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{contract.RecordAnnotation: r.String()}}}
	n.Spec.Unschedulable = true
	offer(n, "nvidia.com/mig-1g.10gb")
	return n, r
}

// newManager is a Manager of a cluster with these objects.
func newManager(objects ...client.Object) (client.Client, *Manager) {
	c := kubefake.New(clientgoscheme.Scheme).WithObjects(objects...).Build()
	return c, NewManager(c, c, DefaultConfigMap)
}

func offer(n *corev1.Node, name string) {
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("1")}
}

func TestAgentPhases(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{contract.RecordAnnotation: "{"}}}
	if op := OperationOf(n); op == nil || op.ID != Unreadable || op.Phase != plan.PhaseFailed {
		t.Errorf("an unreadable record: operation %+v", op)
	}
	for name, test := range map[string]struct {
		change func(*corev1.Node, *contract.Record)
		phase  plan.Phase
		says   string
	}{
		"not let begin": {func(_ *corev1.Node, r *contract.Record) { r.Selected = false }, plan.PhasePending, "signalled to begin"},
		"no answer":     {nil, plan.PhasePending, "not answered"},
		"about another": {answered(contract.Answer{ID: "older", State: contract.AgentDone}), plan.PhasePending, "not answered"},
		"nonsense":      {func(n *corev1.Node, _ *contract.Record) { n.Annotations[contract.AgentAnnotation] = "{" }, plan.PhasePending, "not answered"},
		"working":       {answered(contract.Answer{ID: "op", State: contract.AgentWorking, Step: "create 3g@0:4"}), plan.PhasePending, "create 3g@0:4"},
		"going back":    {answered(contract.Answer{ID: "op", State: contract.AgentWorking, Back: true, Message: "no free slices"}), plan.PhaseFailed, "no free slices"},
		"restored":      {answered(contract.Answer{ID: "op", State: contract.AgentRestored, Message: "busy"}), plan.PhaseFailed, "busy"},
		"failed":        {answered(contract.Answer{ID: "op", State: contract.AgentFailed, Message: "lost"}), plan.PhaseFailed, "lost"},
		"done, not yet": {answered(contract.Answer{ID: "op", State: contract.AgentDone}), plan.PhasePending, "advertised"},
		"done and offered": {func(n *corev1.Node, r *contract.Record) {
			answered(contract.Answer{ID: "op", State: contract.AgentDone})(n, r)
			offer(n, "nvidia.com/mig-3g.40gb")
		}, plan.PhaseSucceeded, ""},
		"an answer from before the undo": {func(n *corev1.Node, r *contract.Record) {
			answered(contract.Answer{ID: "op", State: contract.AgentDone})(n, r)
			r.Undo = &contract.Undo{Since: noon, Attempts: 1}
		}, plan.PhaseFailed, "has not answered"},
	} {
		t.Run(name, func(t *testing.T) {
			n, r := agentNode()
			if test.change != nil {
				test.change(n, &r)
			}
			n.Annotations[contract.RecordAnnotation] = r.String()
			op := OperationOf(n)
			if op == nil || op.Phase != test.phase || !strings.Contains(op.Message, test.says) {
				t.Errorf("%+v, want %s: %q", op, test.phase, test.says)
			}
		})
	}
}

func answered(a contract.Answer) func(*corev1.Node, *contract.Record) {
	return func(n *corev1.Node, _ *contract.Record) { n.Annotations[contract.AgentAnnotation] = a.String() }
}

// TestUndoByAgent: the node is released once its agent has restored the GPU; the agent is asked
// again after a failure or without an answer; in the end the node is left to an administrator.
func TestUndoByAgent(t *testing.T) {
	n, r := agentNode()
	c, m := newManager(n)
	now := noon.Add(2 * time.Minute)
	undo := func() (bool, error) {
		t.Helper()
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(n), n))
		var err error
		r, _, err = contract.RecordOf(n)
		require.NoError(t, err)
		done, err := m.Undo(t.Context(), n, r, now, time.Minute)
		_ = c.Get(t.Context(), client.ObjectKeyFromObject(n), n)
		r, _, _ = contract.RecordOf(n)
		return done, err
	}
	says := func(a contract.Answer) {
		t.Helper()
		n.Annotations[contract.AgentAnnotation] = a.String()
		require.NoError(t, c.Update(t.Context(), n))
	}
	if done, err := undo(); done || err != nil || r.Attempt() != 1 {
		t.Fatalf("first: %v %v, attempt %d", done, err, r.Attempt())
	}
	if _, _ = undo(); r.Attempt() != 1 {
		t.Error("it was asked again without waiting")
	}
	says(contract.Answer{ID: "op", Undo: 1, State: contract.AgentFailed, Message: "stuck"})
	// A driver that hangs for half a minute must not use up all attempts.
	if _, _ = undo(); r.Attempt() != 1 {
		t.Errorf("right after a failure: attempt %d", r.Attempt())
	}
	now = now.Add(retryFailed)
	if _, _ = undo(); r.Attempt() != 2 {
		t.Errorf("after a failure: attempt %d", r.Attempt())
	}
	now = now.Add(time.Minute)
	if _, _ = undo(); r.Attempt() != 3 {
		t.Errorf("after silence: attempt %d", r.Attempt())
	}
	says(contract.Answer{ID: "op", Undo: 2, State: contract.AgentRestored})
	if done, _ := undo(); done {
		t.Error("an answer to an earlier attempt ended it")
	}
	says(contract.Answer{ID: "op", Undo: 3, State: contract.AgentRestored})
	if done, err := undo(); !done || err != nil || n.Spec.Unschedulable || n.Annotations[contract.RecordAnnotation] != "" {
		t.Errorf("restored: %v %v, %v %v", done, err, n.Spec, n.Annotations)
	}
}

func TestUndoByAgentEnds(t *testing.T) {
	n, r := agentNode()
	c, m := newManager(n)
	r.Undo = &contract.Undo{Since: noon, Attempts: MaxUndoAttempts}
	_ = c.Get(t.Context(), client.ObjectKeyFromObject(n), n)
	done, err := m.Undo(t.Context(), n, r, noon.Add(time.Hour), time.Minute)
	if done || err == nil || !strings.Contains(err.Error(), "stays cordoned") {
		t.Errorf("%v %v", done, err)
	}
	// An operation that was never selected ends at once.
	r.Undo, r.Selected = nil, false
	if done, err := m.Undo(t.Context(), n, r, noon, time.Minute); !done || err != nil {
		t.Errorf("%v %v", done, err)
	}
}

// TestClockAhead: a leader whose clock was hours ahead began the rollback. The next leader does not wait for that hour
// before it tries again.
func TestClockAhead(t *testing.T) {
	for _, actuator := range []string{contract.ActuatorAgent, ""} {
		n, r := agentNode()
		r.Actuator, r.Config, r.Previous = actuator, "c", "p"
		r.Undo = &contract.Undo{Since: noon.Add(5 * time.Hour), Attempts: 1}
		n.Annotations[contract.RecordAnnotation] = r.String()
		n.Labels = map[string]string{contract.ConfigLabel: "p", contract.StateLabel: contract.StatePending}
		c, m := newManager(n)
		_, _ = m.edit(t.Context(), noon, func(c *Config) error { c.MIGConfigs["p"] = nil; return nil })
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(n), n))
		done, err := m.Undo(t.Context(), n, r, noon, time.Minute)
		if r, _, _ = contract.RecordOf(n); done || err != nil || r.Attempt() != 2 {
			t.Errorf("actuator %q: %v %v, attempt %d, want 2", actuator, done, err, r.Attempt())
		}
	}
	if elapsed(noon.Add(time.Second), noon) != 0 {
		t.Error("a clock that is a second behind is no jump")
	}
}

// TestCollectKeepsFormerConfigs: a config stays if a node has selected it under its other name: a rollback selects it
// by the first.
func TestCollectKeepsFormerConfigs(t *testing.T) {
	_, m := newManager()
	const first, last = "gpuscale-fffffffff0", "gpuscale-fffffffff1"
	_, err := m.edit(t.Context(), noon, func(c *Config) error {
		c.MIGConfigs[first], c.MIGConfigs[otherName(first)], c.MIGConfigs[last] = nil, nil, nil
		for i := range keepUnused {
			c.MIGConfigs["gpuscale-"+string(rune('a'+i/26))+string(rune('a'+i%26))] = nil
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, m.Collect(t.Context(), noon, map[string]bool{otherName(first): true}))
	for name, want := range map[string]bool{first: true, otherName(first): true, last: false} {
		_, _, c, err := m.read(t.Context())
		if _, ok := c.MIGConfigs[name]; ok != want || err != nil {
			t.Errorf("%s: %v, want %v, %v", name, ok, want, err)
		}
	}
}

// TestOffers: the driver's rounding of a profile's name does not matter; the number of instances
// does.
func TestOffers(t *testing.T) {
	for name, test := range map[string]struct {
		a, b map[string]int64
		same bool
	}{
		"equal":           {map[string]int64{"nvidia.com/mig-3g.40gb": 2}, map[string]int64{"nvidia.com/mig-3g.40gb": 2}, true},
		"rounded":         {map[string]int64{"nvidia.com/mig-3g.39gb": 2}, map[string]int64{"nvidia.com/mig-3g.40gb": 2}, true},
		"fewer":           {map[string]int64{"nvidia.com/mig-3g.39gb": 1}, map[string]int64{"nvidia.com/mig-3g.40gb": 2}, false},
		"another size":    {map[string]int64{"nvidia.com/mig-1g.20gb": 2}, map[string]int64{"nvidia.com/mig-1g.10gb": 2}, false},
		"with attributes": {map[string]int64{"nvidia.com/mig-1g.10gb.me": 1}, map[string]int64{"nvidia.com/mig-1g.10gb": 1}, false},
		"one more kind":   {map[string]int64{"nvidia.com/gpu": 1}, map[string]int64{"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}, false},
		"nothing":         {nil, map[string]int64{}, true},
	} {
		if SameOffer(test.a, test.b) != test.same || SameOffer(test.b, test.a) != test.same {
			t.Errorf("%s: want %v both ways", name, test.same)
		}
	}
	n, r := agentNode()
	n.Annotations[contract.AgentAnnotation] = contract.Answer{ID: r.ID, State: contract.AgentDone}.String()
	offer(n, "nvidia.com/mig-3g.39gb")
	if op := OperationOf(n); op.Phase != "succeeded" {
		t.Errorf("an older driver's name: %+v", op)
	}
}

// offering is a node with GPUs of some memory ("" for no label) that advertises these profiles.
func offering(memory string, profiles map[string]string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}, Annotations: map[string]string{}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{}},
	}
	if memory != "" {
		node.Labels[MemoryLabel] = memory
	}
	for name, n := range profiles {
		node.Status.Allocatable[corev1.ResourceName(mig.ResourceName(name))] = resource.MustParse(n)
	}
	return node
}

// TestNamesAreTheNodes runs testdata/names.txt: the layouts of all GPUs have the names that the node advertises, and a
// profile that it does not offer has a name only if that is certain.
//
//	names model=NAME offers=(PROFILE:N,…) [memory=MIB]    the instances of GPU 1 after a repartition of a node with two GPUs
//	  busy LAYOUT                                         of GPU 0
//	  target LAYOUT                                       for GPU 1
//	  own TABLE                                           that the node's agent publishes
func TestNamesAreTheNodes(t *testing.T) {
	datadriven.RunTest(t, "testdata/names.txt", func(t *testing.T, d *datadriven.TestData) string {
		var model, memory string
		d.ScanArgs(t, "model", &model)
		d.MaybeScanArgs(t, "memory", &memory)
		offered, lines := map[string]string{}, map[string]string{}
		for _, arg := range d.CmdArgs {
			for _, v := range arg.Vals {
				if name, n, ok := strings.Cut(v, ":"); ok {
					offered[name] = n
				}
			}
		}
		for line := range strings.SplitSeq(d.Input, "\n") {
			key, value, _ := strings.Cut(line, " ")
			lines[key] = value
		}
		node := offering(memory, offered)
		names := NamesOn(node)
		product, _ := gpu.ParseProduct(model)
		table, _ := mig.ForModel(model)
		parse := func(text string) mig.Layout {
			l, err := mig.ParseLayout(table, text)
			require.NoError(t, err)
			return l
		}
		before, err := names.LayoutOf(nil, []plan.GPU{ofLayout(0, product, parse(lines["busy"])), ofLayout(1, product, nil)})
		var after NodeLayout
		if err == nil {
			for profile := range before[0].Counts {
				if offered[profile] == "" {
					t.Errorf("%s: the busy GPU has %s", d.Pos, profile)
				}
			}
			after, err = before.With(nil, names, 1, model, parse(lines["target"]))
		}
		if err != nil {
			return fmt.Sprintf("refused: %v\n", err)
		}
		return fmt.Sprintf("%v\n", after[1].Counts)
	})
}

// TestMemoryGivesTheNames: for each product the derived names are the table's.
func TestMemoryGivesTheNames(t *testing.T) {
	for _, model := range mig.Models() {
		table, _ := mig.ForModel(model)
		memory := table.Spec().MemoryMiB
		if memory == 0 {
			t.Errorf("%s: no memory", model)
		}
		names := NamesOn(offering(strconv.Itoa(memory), nil))
		for _, p := range table.Profiles() {
			if name, err := names.of(table, p); err != nil || name != table.Name(p) {
				t.Errorf("%s: %s, %v: want %s", model, name, err, table.Name(p))
			}
		}
	}
}

func ofLayout(index int, model gpu.Model, l mig.Layout) plan.GPU {
	c := plan.GPU{Device: gpu.Device{Index: index, Model: model}, AllocationKnown: true, MIG: true}
	for _, p := range slices.Backward(l) {
		c.Instances = append(c.Instances, plan.Instance{Placement: p, Placed: true})
	}
	return c
}
