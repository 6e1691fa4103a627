package fakeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Server answers GET requests about objects.
type Server struct {
	// Denied are beginnings of paths that the caller may not read.
	Denied []string
	// Broken are beginnings of paths that end in an error.
	Broken []string
	// Endless are paths of lists that always have another page.
	Endless []string
	// Extra are pages by their path, such as a discovery page.
	Extra map[string]string
	// Clock is the time in answers; the machine's if nil.
	Clock func() time.Time

	lists map[string][]json.RawMessage // by path
	names map[string]json.RawMessage   // single objects by path

	mu    sync.Mutex
	calls []string
}

// absent are the beginnings of the paths of APIs that this fake does not have.
var absent = []string{"/apis/keda.sh/", "/apis/resource.k8s.io/", "/apis/custom.metrics.k8s.io/", "/apis/external.metrics.k8s.io/", "/apis/monitoring.coreos.com/"}

// New returns a server of the objects in YAML documents.
func New(text string) (*Server, error) {
	s := &Server{lists: map[string][]json.RawMessage{}, names: map[string]json.RawMessage{}, Extra: map[string]string{}}
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			return nil, fmt.Errorf("reading an object: %w", err)
		}
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, fmt.Errorf("reading an object: %w", err)
		}
		if o.Kind == "" {
			continue
		}
		of, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		api := "/apis/" + o.APIVersion
		if of.Group == "" {
			api = "/api/v1"
		}
		path := api + "/" + of.Resource
		s.lists[path] = append(s.lists[path], raw)
		if o.Namespace != "" {
			path = api + "/namespaces/" + o.Namespace + "/" + of.Resource
			s.lists[path] = append(s.lists[path], raw)
		}
		s.names[path+"/"+o.Name] = raw
	}
	return s, nil
}

// Calls that were made so far, "GET /api/v1/nodes".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// ServeHTTP answers as an API server does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	if s.Clock != nil {
		w.Header().Set("Date", s.Clock().UTC().Format(http.TimeFormat))
	}
	w.Header().Set("Content-Type", "application/json")
	begins := func(p string) bool { return strings.HasPrefix(r.URL.Path, p) }
	switch {
	case r.Method != http.MethodGet:
		refuse(w, http.StatusMethodNotAllowed, "this fake serves GET only")
	case slices.ContainsFunc(s.Denied, begins):
		refuse(w, http.StatusForbidden, "forbidden: "+r.URL.Path)
	case slices.ContainsFunc(s.Broken, begins):
		refuse(w, http.StatusInternalServerError, "etcd is away")
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"major":"1","minor":"37"}`)
	case s.Extra[r.URL.Path] != "":
		fmt.Fprint(w, s.Extra[r.URL.Path])
	case s.names[r.URL.Path] != nil:
		_, _ = w.Write(s.names[r.URL.Path])
	default:
		s.list(w, r)
	}
}

// endlessPage is the most objects in a page of an endless list: as few as reach the caller's
// bound of objects before that of calls.
const endlessPage = 80

// list writes one page. The token is where the next one begins.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, "/api/v1/"), "/apis/"), "/")
	if strings.HasPrefix(path, "/apis/") {
		parts = parts[min(2, len(parts)):] // behind the group and its version
	}
	if slices.ContainsFunc(absent, func(p string) bool { return strings.HasPrefix(path, p) }) || len(parts)%2 == 0 { // a single object
		refuse(w, http.StatusNotFound, "the server could not find the requested resource")
		return
	}
	items := s.lists[path]
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	next := ""
	if slices.Contains(s.Endless, path) {
		limit = min(limit, endlessPage)
		items, next = slices.Repeat(items[:1], limit), strconv.Itoa(from+limit)
	} else {
		end := len(items)
		if limit > 0 && from+limit < end {
			end, next = from+limit, strconv.Itoa(from+limit)
		}
		items = items[from:end]
	}
	page := map[string]any{"metadata": map[string]any{"continue": next}, "items": items}
	if err := json.NewEncoder(w).Encode(page); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
}
