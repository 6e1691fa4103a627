package agent

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

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// api is an API server with one node and the device plugin's pods on it, in a process that outlives
// killed agents. A deleted plugin pod is replaced, as by a DaemonSet.
type api struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	version int
	node    map[string]any
	plugins []string // UIDs
	made    int
	looks   int      // of the agents at their node
	log     []string // the writes: "note destroy 1g@4:1", "delete plugin-1"
	// before and after are called around the n-th write; before returns whether the write is lost.
	before func(n int) bool
	after  func(n int)
	broken bool // the device plugin does not come back
}

func newAPI(t testing.TB) *api {
	a := &api{t: t, version: 1, plugins: []string{"plugin-0"}, node: map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": "n", "uid": "uid-n", "annotations": map[string]any{}},
	}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *api) client() kubernetes.Interface {
	c, err := kubernetes.NewForConfig(&rest.Config{Host: a.URL, QPS: -1})
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

func (a *api) annotations() map[string]any {
	return a.node["metadata"].(map[string]any)["annotations"].(map[string]any)
}

// set sets an annotation as another client would; "" removes it.
func (a *api) set(key, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if value == "" {
		delete(a.annotations(), key)
	} else {
		a.annotations()[key] = value
	}
	a.version++
}

// label sets a label as another client would.
func (a *api) label(key, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	metadata := a.node["metadata"].(map[string]any)
	labels, ok := metadata["labels"].(map[string]any)
	if !ok {
		labels = map[string]any{}
		metadata["labels"] = labels
	}
	labels[key] = value
	a.version++
}

func (a *api) get(key string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, _ := a.annotations()[key].(string)
	return text
}

// looked counts the agents' reads of their node.
func (a *api) looked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.looks
}

func (a *api) writes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.log...)
}

// around sets before and after under the lock, which orders the calls of an agent in another
// process.
func (a *api) around(before func(n int) bool, after func(n int)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.before, a.after = before, after
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	write := r.Method == http.MethodPatch || r.Method == http.MethodDelete
	a.mu.Lock()
	before, after, n := a.before, a.after, 0
	if write {
		a.log = append(a.log, "?")
		n = len(a.log)
	}
	a.mu.Unlock()
	if write && before != nil && before(n) {
		return
	}
	code, body := a.handle(r, n)
	if write && after != nil {
		after(n)
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func (a *api) handle(r *http.Request, n int) (int, any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch path := r.URL.Path; {
	case r.URL.Query().Get("watch") != "":
		return http.StatusInternalServerError, status("no watch here", "InternalError", 500)
	case r.Method == http.MethodGet && path == "/api/v1/nodes/n":
		a.looks++
		a.node["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(a.version)
		return http.StatusOK, json.RawMessage(must(json.Marshal(a.node)))
	case r.Method == http.MethodPatch && path == "/api/v1/nodes/n/status":
		return a.patch(r, n)
	case r.Method == http.MethodGet && path == "/api/v1/namespaces/gpu-operator/pods" &&
		r.URL.Query().Get("fieldSelector") == "spec.nodeName=n" && r.URL.Query().Get("labelSelector") == "app=nvidia-device-plugin-daemonset":
		items := []any{}
		for _, uid := range a.plugins {
			items = append(items, map[string]any{
				"metadata": map[string]any{"name": uid, "namespace": "gpu-operator", "uid": uid},
				"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
			})
		}
		return http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{}, "items": items}
	case r.Method == http.MethodDelete && strings.HasPrefix(path, "/api/v1/namespaces/gpu-operator/pods/"):
		uid := strings.TrimPrefix(path, "/api/v1/namespaces/gpu-operator/pods/")
		if !slices.Contains(a.plugins, uid) {
			return http.StatusNotFound, status("no pod "+uid, "NotFound", 404)
		}
		a.log[n-1] = "delete " + uid
		a.plugins = nil
		if !a.broken {
			a.made++
			a.plugins = []string{"plugin-" + strconv.Itoa(a.made)}
		}
		return http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Success"}
	}
	return http.StatusForbidden, status(r.Method+" "+r.URL.String()+" is more than an agent may do", "Forbidden", 403)
}

func status(message, reason string, code int) any {
	return map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}
}

func (a *api) patch(r *http.Request, n int) (int, any) {
	var p struct {
		Metadata struct {
			ResourceVersion string             `json:"resourceVersion"`
			Annotations     map[string]*string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		return http.StatusBadRequest, status(err.Error(), "BadRequest", 400)
	}
	if v := p.Metadata.ResourceVersion; v != "" && v != strconv.Itoa(a.version) {
		a.log[n-1] = "conflict"
		return http.StatusConflict, status("the node has changed", "Conflict", 409)
	}
	for key, value := range p.Metadata.Annotations {
		if value == nil {
			delete(a.annotations(), key)
			a.log[n-1] = "remove " + key
			continue
		}
		a.annotations()[key] = *value
		a.log[n-1] = "write " + key
		var answer struct{ State, Step string }
		if key == "gpuscale.io/mig-agent" && json.Unmarshal([]byte(*value), &answer) == nil {
			a.log[n-1] = fmt.Sprintf("%s: %s", answer.State, answer.Step)
		}
	}
	a.version++
	return http.StatusOK, json.RawMessage(must(json.Marshal(a.node)))
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
