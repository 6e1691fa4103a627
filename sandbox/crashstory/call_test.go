package crashstory

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/gpuscale/gpuscale/internal/require"
)

func TestCallsAreNamedByWhatTheyAre(t *testing.T) {
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "whole-1"}}
	binary, err := runtime.Encode(protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme), node)
	require.NoError(t, err)
	for _, test := range []struct{ method, path, body, want string }{
		{"GET", "/api/v1/nodes", "", ""},
		{"POST", "/api/v1/nodes", string(binary), "create nodes whole-1"},
		{"POST", "/api/v1/nodes", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"whole-1"}}`, "create nodes whole-1"},
		{"POST", "/apis/example.org/v1/things", `{"metadata":{"name":"a"}}`, "create things a"},
		{"DELETE", "/api/v1/nodes/whole-1", "", "delete nodes whole-1"},
		{"PUT", "/api/v1/namespaces/gpu-operator/configmaps/c", "{}", "update configmaps gpu-operator/c"},
		{"POST", "/api/v1/namespaces/a/pods/b/eviction", "{}", "create pods/eviction a/b"},
		{"PATCH", "/api/v1/nodes/n", `{"metadata":{"resourceVersion":"7","annotations":{"x.io/b":"1","x.io/a":null}},"spec":{"unschedulable":true}}`,
			"patch nodes n metadata.annotations.x.io/a,metadata.annotations.x.io/b,spec.unschedulable"},
		{"PATCH", "/apis/gpuscale.io/v1alpha1/gpunodepools/p/status", `{"status":{"plannerState":{"grown":[{"nodes":1}]},"size":1}}`,
			"patch gpunodepools/status p status.plannerState.grown,status.size"},
		{"POST", "/version", "", ""},
	} {
		c, ok := parseCall(test.method, test.path, []byte(test.body))
		if got := c.String(); got != test.want || ok != (test.want != "") {
			t.Errorf("%s %s: %q, %t, want %q", test.method, test.path, got, ok, test.want)
		}
	}
}

// TestKills: a conflict and the next attempt are one call, and a call that only
// publishes is tried once.
func TestKills(t *testing.T) {
	remove, publish := Call{Verb: "delete", Resource: "nodes", Name: "n"}, Call{Verb: "patch", Resource: "gpuquotas/status", Name: "q", Fields: "status.used"}
	got := kills([]Note{{remove, 1, 409}, {remove, 2, 200}, {publish, 1, 200}, {publish, 2, 200}, {remove, 3, 200}})
	var only []string
	for _, trial := range got {
		only = append(only, trial.Only())
	}
	want := "delete nodes n #1:before; delete nodes n #1:after; patch gpuquotas/status q status.used #1:before; patch gpuquotas/status q status.used #1:after; " +
		"delete nodes n #3:before; delete nodes n #3:after"
	if s := strings.Join(only, "; "); s != want {
		t.Errorf("got %s", s)
	}
}
