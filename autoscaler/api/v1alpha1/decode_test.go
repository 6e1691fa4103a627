package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/require"
)

// decoded decodes as the clients do.
func decoded(t *testing.T, text string) runtime.Object {
	t.Helper()
	o, _, err := serializer.NewCodecFactory(scheme.New()).UniversalDeserializer().Decode([]byte(text), nil, nil)
	require.NoError(t, err)
	return o
}

// TestOneBadObjectInAList: an object that this version cannot decode is known by its metadata, and
// the others of its list are decoded.
func TestOneBadObjectInAList(t *testing.T) {
	for _, spec := range []string{
		`{"scaleDown":{"idleAfter":"10min"}}`, `{"readyAfter":"soon"}`, `{"mig":{"idleAfter":"1 hour"}}`, `{"min":"three"}`,
		`{"template":{"cpu":"many"}}`, `"nothing"`, `[]`,
	} {
		list := decoded(t, `{"apiVersion":"gpuscale.io/v1alpha1","kind":"GPUNodePoolList","items":[
			{"apiVersion":"gpuscale.io/v1alpha1","kind":"GPUNodePool","metadata":{"name":"bad","resourceVersion":"7"},"spec":`+spec+`},
			{"apiVersion":"gpuscale.io/v1alpha1","kind":"GPUNodePool","metadata":{"name":"good"},"spec":{"max":3,"freeze":true}}]}`).(*v1alpha1.GPUNodePoolList)
		if len(list.Items) != 2 || list.Items[0].Name != "bad" || list.Items[0].ResourceVersion != "7" || list.Items[0].Undecodable == "" {
			t.Errorf("%s: %+v", spec, list.Items)
		}
		if good := list.Items[1]; good.Spec.Max != 3 || !good.Spec.Freeze || good.Undecodable != "" {
			t.Errorf("beside %s: %+v", spec, good)
		}
	}
}

// TestBadObjectOverHTTP: neither a list nor a watch of the autoscaler's own client ends at an object with a
// duration that the schema did not refuse when it was stored.
func TestBadObjectOverHTTP(t *testing.T) {
	const bad = `{"apiVersion":"gpuscale.io/v1alpha1","kind":"GPUNodePool","metadata":{"name":"bad","resourceVersion":"7"},"spec":{"max":9,"scaleDown":{"idleAfter":"10min"}}}`
	const good = `{"apiVersion":"gpuscale.io/v1alpha1","kind":"GPUNodePool","metadata":{"name":"good","resourceVersion":"8"},"spec":{"max":3,"freeze":true}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if watch, _ := strconv.ParseBool(r.URL.Query().Get("watch")); watch {
			_, _ = fmt.Fprintf(w, "{\"type\":\"ADDED\",\"object\":%s}\n{\"type\":\"MODIFIED\",\"object\":%s}\n", bad, good)
			return
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":"gpuscale.io/v1alpha1","kind":"GPUNodePoolList","metadata":{"resourceVersion":"9"},"items":[%s,%s]}`, bad, good)
	}))
	defer server.Close()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("GPUNodePool"), meta.RESTScopeRoot)
	c, err := client.NewWithWatch(&rest.Config{Host: server.URL}, client.Options{Scheme: scheme.New(), Mapper: mapper})
	require.NoError(t, err)
	var list v1alpha1.GPUNodePoolList
	require.NoError(t, c.List(t.Context(), &list))
	watched, err := c.Watch(t.Context(), &v1alpha1.GPUNodePoolList{})
	require.NoError(t, err)
	defer watched.Stop()
	var events []v1alpha1.GPUNodePool
	for e := range watched.ResultChan() {
		p, ok := e.Object.(*v1alpha1.GPUNodePool)
		if !ok {
			t.Fatalf("%s %+v", e.Type, e.Object)
		}
		events = append(events, *p)
	}
	for what, got := range map[string][]v1alpha1.GPUNodePool{"list": list.Items, "watch": events} {
		if len(got) != 2 || got[0].Name != "bad" || !strings.Contains(got[0].Undecodable, "10min") || got[0].Spec.Max != 0 || got[1].Spec.Max != 3 || !got[1].Spec.Freeze {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestBadQuotaKeepsItsLimits: a field that cannot be decoded loses no other field: not a quota's limits because of a
// duration, and not the pods that a quota is for because of an amount.
func TestBadQuotaKeepsItsLimits(t *testing.T) {
	q := decoded(t, `{"apiVersion":"gpuscale.io/v1alpha1","kind":"GPUQuota","metadata":{"name":"q"},
		"spec":{"tenants":{"namespaces":["a"]},"amounts":[{"model":"any","limit":"4"}],"reclaimIdle":"1 hour"}}`).(*v1alpha1.GPUQuota)
	if q.Undecodable == "" || len(q.Spec.Amounts) != 1 || q.Spec.Amounts[0].Limit.Value() != 4 || len(q.Spec.Tenants.Namespaces) != 1 {
		t.Errorf("%+v", q)
	}
	q = decoded(t, `{"apiVersion":"gpuscale.io/v1alpha1","kind":"GPUQuota","metadata":{"name":"q"},"spec":{"tenants":{"namespaces":["a"]},"amounts":[{"limit":"much"}]}}`).(*v1alpha1.GPUQuota)
	if q.Name != "q" || q.Undecodable == "" || len(q.Spec.Amounts) != 0 || len(q.Spec.Tenants.Namespaces) != 1 {
		t.Errorf("%+v", q)
	}
}

// FuzzDecode: whatever is stored, an object is decoded or rejected, and what is decoded can be
// written again.
func FuzzDecode(f *testing.F) {
	f.Add(`{"metadata":{"name":"p"},"spec":{"readyAfter":"10min"}}`)
	f.Add(`{"metadata":{"name":"p"},"spec":{"max":3},"status":{"size":1}}`)
	f.Add(`{"metadata":{"name":"p"},"spec":{"template":{"cpu":"1e111111191999"},"amounts":[{"limit":1e-111111191}]}}`)
	f.Add(`{"metadata":7}`)
	f.Fuzz(func(t *testing.T, text string) {
		var pool v1alpha1.GPUNodePool
		if json.Unmarshal([]byte(text), &pool) == nil {
			if out, err := json.Marshal(&pool); err == nil && strings.Contains(string(out), "Undecodable") {
				t.Errorf("written: %s", out)
			}
		}
		var quota v1alpha1.GPUQuota
		_ = json.Unmarshal([]byte(text), &quota)
	})
}
