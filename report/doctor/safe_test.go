package doctor

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// hostile text: escapes, another direction, lines, quotes, a shell's words, length.
const hostile = "a\x1b[2J\x1b]0;x\a\u202e'; rm -rf / #\n$(reboot)`id`\x00\u009b\xff"

// TestCommand: what must not be pasted is in no command.
func TestCommand(t *testing.T) {
	for _, word := range []string{hostile, "a\nb", "\x1b[2J", "a\u202eb", "\xff"} {
		if c := command("kubectl", "get", word); c != "" {
			t.Errorf("%q is in a command to paste: %q", word, c)
		}
	}
	if c := command(strings.Repeat("x", maxCommand+1)); c != "" {
		t.Errorf("a command of %d letters", len(c))
	}
}

// TestHostile: names and labels of others reach neither the terminal nor a command as
// they are, in text and in JSON.
func TestHostile(t *testing.T) {
	f := empty()
	f.CRDs = []*apiextensionsv1.CustomResourceDefinition{{ObjectMeta: metav1.ObjectMeta{Name: "gpuquotas.gpuscale.io"}}}
	meta := metav1.ObjectMeta{Namespace: hostile, Name: strings.Repeat(hostile, 200), Labels: map[string]string{
		labelPresent: "true", contract.StateLabel: "failed", contract.ConfigLabel: hostile, v1alpha1.NodePoolLabel: hostile,
	}, Annotations: map[string]string{contract.AgentAnnotation: `{"state":"failed","message":"\u001b[2J` + `"}`, v1alpha1.CordonAnnotation: hostile, contract.RecordAnnotation: hostile}}
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	f.Nodes = []*corev1.Node{{ObjectMeta: meta, Spec: corev1.NodeSpec{Unschedulable: true}, Status: corev1.NodeStatus{Conditions: ready}}}
	f.HPAs = []*autoscalingv2.HorizontalPodAutoscaler{{ObjectMeta: meta,
		Spec:   autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{{Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: hostile}}}}},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: hostile, Message: hostile}}}}}
	f.Pools = []*v1alpha1.GPUNodePool{{ObjectMeta: meta, Spec: v1alpha1.GPUNodePoolSpec{Freeze: true},
		Status: v1alpha1.GPUNodePoolStatus{Conditions: []metav1.Condition{{Type: "Valid", Status: metav1.ConditionFalse, Reason: hostile, Message: hostile}}}}}
	f.GPUQuotas = []*v1alpha1.GPUQuota{{ObjectMeta: meta, Spec: v1alpha1.GPUQuotaSpec{Parent: hostile}}}
	labels := prom.FromMap(map[string]string{"node": hostile, "job": hostile, "instance": hostile, "pod": hostile, "namespace": hostile, "program": hostile, "rule": hostile})
	for _, d := range Table {
		if d.Query != "" {
			f.Answers[d] = prom.Vector{{Labels: labels, Value: 700}}
		}
	}
	f.LimitRanges = []*corev1.LimitRange{{ObjectMeta: meta, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{"nvidia.com/mig-" + hostile: resource.MustParse("1")}}}}}}
	f.DaemonSets = []*appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: hostile, Name: hostile, Labels: map[string]string{labelPartOf: partOf}}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1}}}
	f.Refusals = []*corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "DaemonSet", Namespace: hostile, Name: hostile}, Message: hostile}}
	f.Retention = hostile
	f.Missing[Leases] = Clean(hostile, maxText)
	r := Examine(f, All())
	if r.Faults < 5 {
		t.Fatalf("%d faults: the hostile facts were not looked at", r.Faults)
	}
	var text, document bytes.Buffer
	must(t, Write(&text, r, false))
	must(t, WriteJSON(&document, r))
	for name, out := range map[string]string{"text": text.String(), "JSON": document.String()} {
		for line := range strings.SplitSeq(out, "\n") {
			if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%s: %q", name, line)
			}
			if len([]rune(line)) > maxCommand+100 {
				t.Errorf("%s: a line of %d letters", name, len(line))
			}
		}
	}
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			for _, command := range f.Commands {
				if strings.Contains(command, "reboot") {
					t.Errorf("%s: %s", c.ID, command)
				}
			}
		}
	}
}

// TestColour: colour where it is asked for, and nowhere else.
func TestColour(t *testing.T) {
	f := empty()
	f.Pools = []*v1alpha1.GPUNodePool{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.GPUNodePoolSpec{Freeze: true}}}
	r := Examine(f, All())
	var plain, coloured bytes.Buffer
	must(t, Write(&plain, r, false))
	must(t, Write(&coloured, r, true))
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(coloured.String(), "\x1b[33mWARNING") {
		t.Errorf("plain %q, coloured %q", plain.String(), coloured.String())
	}
}

// TestMany: faults of a thousand nodes are counted, and twenty are listed.
func TestMany(t *testing.T) {
	f := empty()
	f.CRDs = []*apiextensionsv1.CustomResourceDefinition{{ObjectMeta: metav1.ObjectMeta{Name: "gpuquotas.gpuscale.io"}}}
	for range 1000 {
		f.Nodes = append(f.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{contract.StateLabel: "failed"}}})
	}
	checks, err := Select(All(), []string{"mig-config-failed"})
	must(t, err)
	r := Examine(f, checks)
	if r.Faults != 1000 || len(r.Checks[0].Findings) != maxFindings || r.Checks[0].More != 980 {
		t.Errorf("%d faults, %d listed, %d more", r.Faults, len(r.Checks[0].Findings), r.Checks[0].More)
	}
	var b bytes.Buffer
	must(t, Write(&b, r, false))
	if !strings.Contains(b.String(), "980 more are left out") {
		t.Error("it does not say how many are left out")
	}
}

func FuzzClean(f *testing.F) {
	f.Add(hostile, 10)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = min(max(limit, 0), 1000)
		out := Clean(text, limit)
		if len([]rune(out)) > limit+1 || strings.ContainsFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", out)
		}
		if c := command(text); c != "" && strings.ContainsFunc(c, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("command %q", c)
		}
	})
}
