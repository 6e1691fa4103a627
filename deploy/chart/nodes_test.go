package chart_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestNodes: exporter and agent, as deploy/manifests have them, are on nodes whose GPUs pods
// are given, and leave them while their GPUs are needed free.
func TestNodes(t *testing.T) {
	on := map[string]nodeaffinity.RequiredNodeAffinity{}
	for _, program := range []string{"exporter", "agent"} {
		raw, err := os.ReadFile("../manifests/" + program + ".yaml")
		require.NoError(t, err)
		objects, err := chart.Objects(raw)
		require.NoError(t, err)
		for _, o := range objects {
			if o.GetKind() == "DaemonSet" {
				var pod corev1.Pod
				require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": podSpec(t, o)}, &pod))
				on[program] = nodeaffinity.GetRequiredNodeAffinity(&pod)
			}
		}
	}
	var cases []struct {
		Node            string
		Labels          map[string]string
		Exporter, Agent bool
	}
	raw, err := os.ReadFile("testdata/nodes.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(raw, &cases))
	for _, c := range cases {
		c.Labels["gpuscale.io/mig-agent"] = "true"
		for program, want := range map[string]bool{"exporter": c.Exporter, "agent": c.Agent} {
			affinity := on[program]
			if got, err := affinity.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: c.Labels}}); err != nil || got != want {
				t.Errorf("%s: %s is on it: %v, want %v (%v)", c.Node, program, got, want, err)
			}
		}
	}
}

// TestPoliciesNameAllFields: admission policies compare each field that a program may not
// change, those of Kubernetes' newest version too.
func TestPoliciesNameAllFields(t *testing.T) {
	for _, c := range []struct {
		program, part string
		of            reflect.Type
		may           string
	}{
		{"exporter", "status", reflect.TypeFor[corev1.NodeStatus](), "conditions"},
		{"agent", "status", reflect.TypeFor[corev1.NodeStatus](), ""},
		{"autoscaler", "spec", reflect.TypeFor[corev1.NodeSpec](), "unschedulable taints"},
		{"autoscaler", "status", reflect.TypeFor[corev1.PodStatus](), "nominatedNodeName"},
		{"adapter", "spec", reflect.TypeFor[apiregistrationv1.APIServiceSpec](), "caBundle"},
	} {
		raw, err := os.ReadFile("../manifests/" + c.program + ".yaml")
		require.NoError(t, err)
		for i := range c.of.NumField() {
			name, _, _ := strings.Cut(c.of.Field(i).Tag.Get("json"), ",")
			kept := fmt.Sprintf("object.%[1]s.?%[2]s == oldObject.%[1]s.?%[2]s", c.part, name)
			if !slices.Contains(strings.Fields(c.may), name) && !strings.Contains(string(raw), kept) {
				t.Errorf("%s may change %s.%s", c.program, c.of, name)
			}
		}
	}
}
