package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/doctor"
)

// fakeAPI is a fake API server: read-only, with pages, single objects and refusals.
type fakeAPI struct {
	URL string
	// Denied are prefixes of paths that the caller may not read, Broken of paths that end in an error. Endless are
	// paths of lists that always have another page. Silent are prefixes of paths without an answer until silent is
	// closed.
	Denied, Broken, Endless, Silent []string
	silent                          chan struct{}

	lists map[string][]json.RawMessage // by path
	names map[string]string            // single objects, and discovery pages, by path

	mu    sync.Mutex
	calls []string
}

// newFakeAPI serves the objects in YAML documents, and two metrics.
func newFakeAPI(t *testing.T, text string) *fakeAPI {
	t.Helper()
	metrics := `{"resources":[{"name":"pods/gpu_busy"},{"name":"deployments.apps/queue_depth"}]}`
	s := &fakeAPI{lists: map[string][]json.RawMessage{}, names: map[string]string{"/version": "{}",
		"/apis/custom.metrics.k8s.io/v1beta2": metrics, "/apis/external.metrics.k8s.io/v1beta1": metrics}}
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(doc))
		require.NoError(t, err)
		var o metav1.PartialObjectMetadata
		require.NoError(t, json.Unmarshal(raw, &o))
		of, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		path := "/apis/" + o.APIVersion + "/"
		if of.Group == "" {
			path = "/api/v1/"
		}
		s.lists[path+of.Resource] = append(s.lists[path+of.Resource], raw)
		if o.Namespace != "" {
			path += "namespaces/" + o.Namespace + "/"
			s.lists[path+of.Resource] = append(s.lists[path+of.Resource], raw)
		}
		s.names[path+of.Resource+"/"+o.Name] = string(raw)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Calls that were made so far, "GET /api/v1/nodes".
func (s *fakeAPI) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// ServeHTTP answers as an API server does. Leases are renewed at the time of the request.
func (s *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	begins := func(p string) bool { return strings.HasPrefix(r.URL.Path, p) }
	if slices.ContainsFunc(s.Silent, begins) {
		<-s.silent
	}
	// Of an optional API the given objects exist, or none; other APIs have lists, which may be empty.
	absent := slices.ContainsFunc(doctor.Table, func(d *doctor.Source) bool { return d.Optional && slices.ContainsFunc(d.Paths, begins) })
	code, answer := http.StatusOK, s.names[r.URL.Path]
	switch parts := strings.Split(strings.Replace(r.URL.Path, "/api/", "/apis/core/", 1), "/"); {
	case slices.ContainsFunc(s.Denied, begins):
		code, answer = http.StatusForbidden, "forbidden: "+r.URL.Path
	case slices.ContainsFunc(s.Broken, begins):
		code, answer = http.StatusInternalServerError, "etcd is away"
	case answer != "":
	case len(parts)%2 == 0 || absent && s.lists[r.URL.Path] == nil:
		code, answer = http.StatusNotFound, "the server could not find the requested resource"
	default:
		answer = s.page(r)
	}
	if code != http.StatusOK {
		answer = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"code":%d}`, answer, code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprint(w, strings.ReplaceAll(answer, "2026-03-02T08:59:58.000000Z", time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")))
}

// endlessPage is the number of objects in a page of an endless list.
const endlessPage = 500

// page is one page of a list. The token is the beginning of the next one.
func (s *fakeAPI) page(r *http.Request) string {
	items, next := s.lists[r.URL.Path], ""
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	if slices.Contains(s.Endless, r.URL.Path) {
		items, next = slices.Repeat(items[:1], endlessPage), strconv.Itoa(from+endlessPage)
	} else if items = items[from:]; len(items) > limit {
		items, next = items[:limit], strconv.Itoa(from+limit)
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"continue": next}, "items": items})
	if err != nil {
		panic(err)
	}
	return string(raw)
}
