package fakeapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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

// plurals of the kinds that are known, with their groups.
var plurals = map[string]string{
	"Node": "/api/v1/nodes", "Pod": "/api/v1/pods", "Service": "/api/v1/services", "ConfigMap": "/api/v1/configmaps", "ResourceQuota": "/api/v1/resourcequotas",
	"Namespace": "/api/v1/namespaces", "LimitRange": "/api/v1/limitranges", "Event": "/api/v1/events", "NetworkPolicy": "/apis/networking.k8s.io/v1/networkpolicies",
	"ReplicaSet": "/apis/apps/v1/replicasets", "StatefulSet": "/apis/apps/v1/statefulsets", "Job": "/apis/batch/v1/jobs",
	"Deployment": "/apis/apps/v1/deployments", "DaemonSet": "/apis/apps/v1/daemonsets",
	"APIService":               "/apis/apiregistration.k8s.io/v1/apiservices",
	"CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"EndpointSlice":            "/apis/discovery.k8s.io/v1/endpointslices",
	"GPUNodePool":              "/apis/gpuscale.io/v1alpha1/gpunodepools", "GPUQuota": "/apis/gpuscale.io/v1alpha1/gpuquotas",
	"HorizontalPodAutoscaler": "/apis/autoscaling/v2/horizontalpodautoscalers",
	"Lease":                   "/apis/coordination.k8s.io/v1/leases",
	"ClusterRoleBinding":      "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/rolebindings",
	"ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles", "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
	"ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
	"MutatingWebhookConfiguration":   "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
}

// New returns a server of the objects in YAML documents.
func New(text string) (*Server, error) {
	s := &Server{lists: map[string][]json.RawMessage{}, names: map[string]json.RawMessage{}, Extra: map[string]string{}}
	for _, path := range plurals {
		s.lists[path] = nil
	}
	for doc := range strings.SplitSeq("\n"+text, "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			return nil, fmt.Errorf("reading an object: %w", err)
		}
		var head struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return nil, fmt.Errorf("reading an object: %w", err)
		}
		path, known := plurals[head.Kind]
		if !known {
			if head.Kind == "" {
				continue
			}
			return nil, fmt.Errorf("no field for a %s", head.Kind)
		}
		s.lists[path] = append(s.lists[path], raw)
		if head.Metadata.Namespace != "" {
			at := strings.LastIndexByte(path, '/')
			path = path[:at] + "/namespaces/" + head.Metadata.Namespace + path[at:]
			s.lists[path] = append(s.lists[path], raw)
		}
		s.names[path+"/"+head.Metadata.Name] = raw
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
	items, known := s.lists[path]
	if !known && !strings.Contains(path, "/namespaces/") {
		refuse(w, http.StatusNotFound, "the server could not find the requested resource")
		return
	}
	kind := path[strings.LastIndexByte(path, '/'):]
	if !known && !slices.ContainsFunc(slices.Collect(maps.Values(plurals)), func(p string) bool { return strings.HasSuffix(p, kind) }) { // a single object
		refuse(w, http.StatusNotFound, "not found")
		return
	}
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
