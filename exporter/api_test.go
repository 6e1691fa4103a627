package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/internal/require"
)

// recorder is an API server that notes what it is asked for, and has one empty
// object of everything.
type recorder struct {
	mu    sync.Mutex
	calls map[string]bool
}

func (k *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	call := r.Method + " " + r.URL.Path + " " + query.Get("fieldSelector")
	if query.Has("watch") {
		call += " watch"
	}
	k.mu.Lock()
	k.calls[strings.TrimSpace(call)] = true
	k.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if query.Has("watch") {
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1","annotations":{"gpuscale.io/quiesce":"{\"id\":\"1\",\"gpus\":[\"GPU-bbbbbbbb-0000-0000-0000-000000000000\"]}"}},"data":{"metrics":""},"items":[]}`)
}

func (k *recorder) seen(call string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls[call]
}

// ownOnly are all requests that the exporter may make, with every option on.
// Lists are of the own node's objects and the watch is of one object: 5,000
// exporters do not hurt the API server.
var ownOnly = []string{
	"GET /api/v1/namespaces/gpu/configmaps/counters",
	"GET /api/v1/pods spec.nodeName=node-1",
	"GET /apis/resource.k8s.io/v1/resourceslices spec.nodeName=node-1",
	"GET /apis/resource.k8s.io/v1beta2/resourceslices spec.nodeName=node-1",
	"GET /apis/resource.k8s.io/v1beta1/resourceslices spec.nodeName=node-1",
	"GET /api/v1/nodes/node-1",
	"GET /api/v1/nodes/node-1/status",
	"GET /api/v1/nodes metadata.name=node-1 watch",
	"PATCH /api/v1/nodes/node-1/status",
	"POST /api/v1/namespaces/default/events",
}

func TestOnlyOwnObjectsAreAskedFor(t *testing.T) {
	kube := &recorder{calls: map[string]bool{}}
	server := httptest.NewServer(kube)
	t.Cleanup(server.Close)
	api, err := pods.NewAPI(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	c := &config{
		node: "node-1", replay: "testdata/mixed.yaml", intervalMS: 100, kubernetes: true, kubeletSocket: serveKubelet(t),
		podLabels: true, podUID: true, enableDRA: true, fractionalGPUs: true, compat: "true",
		quiesceSocket: path.Join(t.TempDir(), "exporter.sock"), quiesceAnnotation: true, nodeCondition: true,
	}
	log := slog.New(slog.DiscardHandler)
	_, _ = readCountersMap(t.Context(), api, "gpu:counters")
	source, _, err := openSource(c, log)
	require.NoError(t, err)
	n, jobs, err := assemble(c, source, nil, func() (*pods.API, error) { return api, nil }, log)
	require.NoError(t, err)
	var running sync.WaitGroup
	for _, job := range append(jobs, n.Run) {
		running.Go(func() { job(t.Context()) })
	}
	t.Cleanup(running.Wait) // the context ends before the cleanup
	for _, call := range ownOnly {
		if strings.Contains(call, "v1beta") || strings.HasSuffix(call, "/status") || strings.HasSuffix(call, "/events") {
			// Only where the newer version is not served, and only after a state of
			// health has lasted: exporter/agent's tests wait for that on their own clock.
			continue
		}
		until(t, call, func() (bool, string) { return kube.seen(call), "" })
	}
	kube.mu.Lock()
	defer kube.mu.Unlock()
	for call := range kube.calls {
		if !slices.Contains(ownOnly, call) {
			t.Errorf("asked for %s", call)
		}
	}
}
