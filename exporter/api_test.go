package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/internal/require"
)

// recorder is an API server that records the requests, and has one empty object of each kind.
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

// ownOnly are all requests that the exporter may make, with every option on, and the right that each needs. Lists are
// of its own node's objects and the watch is of one object, so that 5,000 exporters do not overload the API server.
var ownOnly = map[string]string{
	"GET /api/v1/namespaces/gpu/configmaps/counters":                        "", // the user who gives -m gives the right
	"GET /api/v1/pods spec.nodeName=node-1":                                 "list pods",
	"GET /apis/resource.k8s.io/v1/resourceslices spec.nodeName=node-1":      "list resourceslices.resource.k8s.io",
	"GET /apis/resource.k8s.io/v1beta1/resourceslices spec.nodeName=node-1": "list resourceslices.resource.k8s.io",
	"GET /api/v1/nodes/node-1":                                              "get nodes",
	"GET /api/v1/nodes metadata.name=node-1 watch":                          "watch nodes",
	"PATCH /api/v1/nodes/node-1/status":                                     "patch nodes/status",
	"POST /api/v1/namespaces/default/events":                                "create events",
}

// The chart gives the exporter the rights of all of its requests. The right to /nodes/node-1/status differs from that
// to /nodes/node-1.
func TestChartGivesTheRights(t *testing.T) {
	text, err := os.ReadFile("../deploy/chart/testdata/rights.txt")
	require.NoError(t, err)
	given := map[string]bool{}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		if role, rules, _ := strings.Cut(block, "\n"); strings.Contains(role, "gpuscale-exporter") {
			for rule := range strings.Lines(rules) {
				given[strings.Join(strings.Fields(rule), " ")] = true
			}
		}
	}
	for call, right := range ownOnly {
		if right != "" && !given[right] {
			t.Errorf("%s needs the right to %s", call, right)
		}
	}
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
	for call := range ownOnly {
		if strings.Contains(call, "v1beta") || strings.HasSuffix(call, "/status") || strings.HasSuffix(call, "/events") {
			// This happens only if the newer version is not served, and only after a state of health has lasted:
			// exporter/agent's tests wait for that on their own clock.
			continue
		}
		until(t, call, func() (bool, string) { return kube.seen(call), "" })
	}
	kube.mu.Lock()
	defer kube.mu.Unlock()
	for call := range kube.calls {
		if _, may := ownOnly[call]; !may {
			t.Errorf("asked for %s", call)
		}
	}
}
