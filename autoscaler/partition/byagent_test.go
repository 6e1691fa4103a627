package partition

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gpuscale/gpuscale/plan"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// agentNode is a node with an operation for its agent, let begin.
func agentNode() (*corev1.Node, Record) {
	r := Record{ID: "op", Model: "H100-80GB", Actuator: ActuatorAgent, Target: "3g.40gb@0", Before: "1g.10gb@0",
		Expect: map[string]int64{"nvidia.com/mig-3g.40gb": 1}, Was: map[string]int64{"nvidia.com/mig-1g.10gb": 1},
		Cordoned: true, Started: noon, Deadline: noon.Add(time.Minute), Selected: true}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{RecordAnnotation: r.String()}}}
	n.Spec.Unschedulable = true
	offer(n, "nvidia.com/mig-1g.10gb")
	return n, r
}

func offer(n *corev1.Node, name string) {
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("1")}
}

func TestAgentPhases(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Node, *Record)
		phase  plan.Phase
		says   string
	}{
		"not let begin": {func(_ *corev1.Node, r *Record) { r.Selected = false }, plan.PhasePending, "told to begin"},
		"no answer":     {nil, plan.PhasePending, "not answered"},
		"about another": {answered(Answer{ID: "older", State: AgentDone}), plan.PhasePending, "not answered"},
		"nonsense":      {func(n *corev1.Node, _ *Record) { n.Annotations[AgentAnnotation] = "{" }, plan.PhasePending, "not answered"},
		"working":       {answered(Answer{ID: "op", State: AgentWorking, Step: "create 3g@0:4"}), plan.PhasePending, "create 3g@0:4"},
		"going back":    {answered(Answer{ID: "op", State: AgentWorking, Back: true, Message: "no room"}), plan.PhaseFailed, "no room"},
		"restored":      {answered(Answer{ID: "op", State: AgentRestored, Message: "busy"}), plan.PhaseFailed, "busy"},
		"failed":        {answered(Answer{ID: "op", State: AgentFailed, Message: "lost"}), plan.PhaseFailed, "lost"},
		"done, not yet": {answered(Answer{ID: "op", State: AgentDone}), plan.PhasePending, "advertised"},
		"done and offered": {func(n *corev1.Node, r *Record) {
			answered(Answer{ID: "op", State: AgentDone})(n, r)
			offer(n, "nvidia.com/mig-3g.40gb")
		}, plan.PhaseSucceeded, ""},
		"an answer from before the undo": {func(n *corev1.Node, r *Record) {
			answered(Answer{ID: "op", State: AgentDone})(n, r)
			r.Undo = &Undo{Since: noon, Attempts: 1}
		}, plan.PhaseFailed, "has not answered"},
	} {
		t.Run(name, func(t *testing.T) {
			n, r := agentNode()
			if test.change != nil {
				test.change(n, &r)
			}
			n.Annotations[RecordAnnotation] = r.String()
			op := OperationOf(n)
			if op == nil || op.Phase != test.phase || !strings.Contains(op.Message, test.says) {
				t.Errorf("%+v, want %s: %q", op, test.phase, test.says)
			}
		})
	}
}

func answered(a Answer) func(*corev1.Node, *Record) {
	return func(n *corev1.Node, _ *Record) { n.Annotations[AgentAnnotation] = a.String() }
}

// TestUndoByAgent: the node is given back once its agent says that the card is as
// it was, asked again where it fails or stays silent, and left to a person in the
// end.
func TestUndoByAgent(t *testing.T) {
	n, r := agentNode()
	scheme := clientgoscheme.Scheme
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(n).WithStatusSubresource(n).Build()
	m := NewManager(c, c, DefaultConfigMap)
	now := noon.Add(2 * time.Minute)
	undo := func() (bool, error) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(n), n); err != nil {
			t.Fatal(err)
		}
		var err error
		if r, _, err = RecordOf(n); err != nil {
			t.Fatal(err)
		}
		done, err := m.Undo(t.Context(), n, r, now, time.Minute)
		_ = c.Get(t.Context(), client.ObjectKeyFromObject(n), n)
		r, _, _ = RecordOf(n)
		return done, err
	}
	says := func(a Answer) {
		t.Helper()
		n.Annotations[AgentAnnotation] = a.String()
		if err := c.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := undo(); done || err != nil || r.attempt() != 1 {
		t.Fatalf("first: %v %v, attempt %d", done, err, r.attempt())
	}
	if _, _ = undo(); r.attempt() != 1 {
		t.Error("it was asked again without waiting")
	}
	says(Answer{ID: "op", Undo: 1, State: AgentFailed, Message: "stuck"})
	// A driver that hangs for half a minute must not cost all attempts.
	if _, _ = undo(); r.attempt() != 1 {
		t.Errorf("right after a failure: attempt %d", r.attempt())
	}
	now = now.Add(retryFailed)
	if _, _ = undo(); r.attempt() != 2 {
		t.Errorf("after a failure: attempt %d", r.attempt())
	}
	now = now.Add(time.Minute)
	if _, _ = undo(); r.attempt() != 3 {
		t.Errorf("after silence: attempt %d", r.attempt())
	}
	says(Answer{ID: "op", Undo: 2, State: AgentRestored})
	if done, _ := undo(); done {
		t.Error("an answer to an earlier attempt ended it")
	}
	says(Answer{ID: "op", Undo: 3, State: AgentRestored})
	if done, err := undo(); !done || err != nil || n.Spec.Unschedulable || n.Annotations[RecordAnnotation] != "" {
		t.Errorf("restored: %v %v, %v %v", done, err, n.Spec, n.Annotations)
	}
}

func TestUndoByAgentEnds(t *testing.T) {
	n, r := agentNode()
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(n).Build()
	m := NewManager(c, c, DefaultConfigMap)
	r.Undo = &Undo{Since: noon, Attempts: MaxUndoAttempts}
	_ = c.Get(t.Context(), client.ObjectKeyFromObject(n), n)
	done, err := m.Undo(t.Context(), n, r, noon.Add(time.Hour), time.Minute)
	if done || err == nil || !strings.Contains(err.Error(), "stays cordoned") {
		t.Errorf("%v %v", done, err)
	}
	// What was never let begin is over at once.
	r.Undo, r.Selected = nil, false
	if done, err := m.Undo(t.Context(), n, r, noon, time.Minute); !done || err != nil {
		t.Errorf("%v %v", done, err)
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add(Answer{ID: "a", State: AgentWorking, Step: "create 3g@0:4", At: noon}.String())
	f.Add(`{"id":"a","state":"lost"}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAnswer(text)
		if err != nil {
			return
		}
		if again, err := ParseAnswer(a.String()); err != nil || again.String() != a.String() {
			t.Fatalf("%s: %v", a, err)
		}
	})
}

func FuzzParseReport(f *testing.F) {
	f.Add(`{"driver":"580.159.03","cards":[{"index":0,"uuid":"GPU-0","model":"H100-80GB","mig":true,"instances":[{"place":"3g@0:4","holder":"a/b"}]}]}`)
	f.Add(`{"cards":[{"index":1,"model":"H100-80GB","mig":true,"instances":[{"place":"3g@2:4"}]}]}`)
	f.Add(`{"cards":[{"index":1},{"index":1}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseReport(text)
		if err != nil {
			return
		}
		for _, c := range r.Cards {
			if _, _, err := c.Layout(nil); err != nil {
				t.Fatalf("accepted %s: %v", text, err)
			}
		}
		if again, err := ParseReport(r.String()); err != nil || again.String() != r.String() {
			t.Fatalf("%s: %v", r, err)
		}
	})
}
