package doctor

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/text"
)

// untrusted is what others write into a cluster: text of any kind, and fields with a format of their own.
type untrusted struct{ text, record, fields, file, share, crd, bundle string }

// facts of a healthy installation, with untrusted text wherever checks read some.
func (u untrusted) facts(t *testing.T) *Facts {
	f := read(t, empty(), with(t, nil, string(mustRead(t, "testdata/base.yaml"))))
	agent, err := json.Marshal(map[string]string{"state": "failed", "message": u.text})
	require.NoError(t, err)
	meta := metav1.ObjectMeta{Namespace: u.text, Name: u.text,
		Labels: map[string]string{labelPresent: "true", contract.StateLabel: "pending", contract.ConfigLabel: u.text, v1alpha1.NodePoolLabel: u.text},
		Annotations: map[string]string{contract.RecordAnnotation: u.record, contract.TableAnnotation: u.record, "gpuscale.io/drain": u.record,
			contract.AgentAnnotation: string(agent), v1alpha1.CordonAnnotation: u.text},
		ManagedFields: []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: now}, FieldsV1: metav1.NewFieldsV1(u.fields)}}}
	failed := meta
	failed.Labels = map[string]string{labelPresent: "true", contract.StateLabel: "failed", contract.ConfigLabel: u.text}
	ready := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	delete(f.objects, Nodes.Source)
	Nodes.add(f, corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{Unschedulable: true}, Status: ready}, corev1.Node{ObjectMeta: failed, Status: ready})
	HPAs.add(f, hpa{ObjectMeta: meta,
		Spec:   autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{{Pods: &autoscalingv2.PodsMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: u.text}}}}},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: u.text, Message: u.text}}}})
	Pools.add(f, pool{ObjectMeta: meta, Spec: v1alpha1.GPUNodePoolSpec{Freeze: true},
		Status: v1alpha1.GPUNodePoolStatus{Conditions: []metav1.Condition{{Type: "Valid", Status: metav1.ConditionFalse, Reason: u.text, Message: u.text}}}})
	GPUQuotas.add(f, gpuQuota{ObjectMeta: meta, Spec: v1alpha1.GPUQuotaSpec{Parent: u.text}})
	labels := map[string]string{}
	for _, name := range []string{"node", "job", "instance", "pod", "namespace", "program", "rule"} {
		labels[name] = u.text
	}
	for _, s := range Table {
		if s.Query != "" {
			f.Answers[s] = prom.Vector{{Labels: prom.FromMap(labels), Value: 700}}
		}
	}
	LimitRanges.add(f, corev1.LimitRange{ObjectMeta: meta, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceName("nvidia.com/mig-" + u.text): resource.MustParse("1")}}}}})
	refused := daemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: u.text, Name: u.text, Labels: map[string]string{labelPartOf: partOf}}}
	refused.Status.DesiredNumberScheduled = 1
	DaemonSets.add(f, refused)
	Refusals.add(f, corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "DaemonSet", Namespace: u.text, Name: u.text}, Message: u.text})
	f.Missing[Leases.Source] = clean(u.text, maxText)
	delete(f.objects, ConfigMaps.Source)
	ConfigMaps.add(f, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "gs", Name: "gpuscale-autoscaler"}, Data: map[string]string{"config.yaml": u.file}})
	least := intstr.FromString(u.share)
	Budgets.add(f, budget{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &least}})
	for i, a := range APIServices.Of(f) {
		broken := *a
		broken.Spec.CABundle = []byte(u.bundle)
		broken.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse, Reason: "FailedDiscoveryCheck", Message: u.text}}
		APIServices.Of(f)[i] = &broken
	}
	for _, k := range kinds {
		c := &apiextensionsv1.CustomResourceDefinition{}
		if json.Unmarshal([]byte(u.crd), c) != nil {
			c = &apiextensionsv1.CustomResourceDefinition{}
		}
		c.Name = k.crd
		CRDs.add(f, *c)
	}
	return f
}

// hostile text: escapes, another writing direction, lines, quotes, a shell's words, length.
const hostile = "a\x1b[2J\x1b]0;x\a\u202e'; rm -rf / #\n$(reboot)`id`\x00\u009b\xff"

// FuzzExamine: whatever others write, every check ends, and its output is safe for a terminal. In text and in JSON each
// line is printable and of bounded length.
func FuzzExamine(f *testing.F) {
	add := func(u untrusted) { f.Add(u.text, u.record, u.fields, u.file, u.share, u.crd, u.bundle) }
	add(untrusted{strings.Repeat(hostile, 200), hostile, hostile, hostile, hostile, hostile, hostile})
	add(untrusted{"x509: certificate is valid for a, not b", `{"config":"c","started":"2026-03-02T08:00:00Z","undo":{"attempts":5}}`, `{"f:metadata":{"f:labels":{"f:nvidia.com/mig.config.state":{}}}}`,
		"leaderElection: {enabled: false, name: x}\npolicy: {freeze: true}", "100%",
		`{"spec":{"versions":[{"name":"v1alpha1","schema":{"openAPIV3Schema":{"properties":{"spec":{"additionalProperties":true}}}}}]}}`,
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"})
	add(untrusted{"x509: certificate has expired or is not yet valid: a is before b", "{", "[]", "a: &a [*a]", "99999999999999999999%",
		`{"spec":{"versions":[{"name":"v1alpha1","schema":{"openAPIV3Schema":{"properties":{"status":null,"spec":{"items":{}}}}}}]}}`, "no certificate"})
	add(untrusted{})
	f.Fuzz(func(t *testing.T, line, record, fields, file, share, crd, bundle string) {
		r := Examine(untrusted{line, record, fields, file, share, crd, bundle}.facts(t), All())
		if len(r.Checks) != len(All()) || record == hostile && r.Faults < 5 {
			t.Fatalf("%d checks, %d faults: the facts were not looked at", len(r.Checks), r.Faults)
		}
		var plain, document bytes.Buffer
		require.NoError(t, Write(&plain, r, false))
		require.NoError(t, text.JSON(&document, r))
		for name, out := range map[string]string{"text": plain.String(), "JSON": document.String()} {
			for line := range strings.SplitSeq(out, "\n") {
				if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) || len([]rune(line)) > maxCommand+100 {
					t.Errorf("%s has a line of %d letters: %q", name, len([]rune(line)), line)
				}
			}
		}
		for _, c := range r.Checks {
			for _, f := range c.Findings {
				if record == hostile && strings.Contains(strings.Join(f.Commands, "\n"), "reboot") {
					t.Errorf("a command would run what a name says: %q", f.Commands)
				}
			}
		}
	})
}
