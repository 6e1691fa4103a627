package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/internal/require"
)

// kube is a fake of the parts of the API server that the agent uses: one Node, its status, a watch, and Events. It
// answers inside the process, so that a test can have a clock of its own.
type kube struct {
	t testing.TB

	mu          sync.Mutex
	annotations map[string]string
	conditions  []map[string]any // by the patches, the last one of each type
	patches     int
	events      []map[string]any
	calls       []string // "GET /api/v1/nodes/node-1"
	refuse      int      // status of every write; 0 accepts
	closesEarly bool     // ends every watch at once, as a proxy may
	changed     chan struct{}
}

func newKube(t testing.TB) *kube {
	return &kube{t: t, annotations: map[string]string{}, changed: make(chan struct{}, 100)}
}

func (k *kube) api() *pods.API {
	api, err := pods.NewAPI(&rest.Config{Host: "http://kube.test", Transport: k})
	require.NoError(k.t, err)
	return api
}

func (k *kube) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, r.Method+" "+r.URL.RequestURI())
	answer := func(status int, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: body, Request: r, Header: http.Header{"Content-Type": {"application/json"}}}, nil
	}
	var content map[string]any
	if r.Method != http.MethodGet {
		if k.refuse != 0 {
			return answer(k.refuse, io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","message":"not today"}`)))
		}
		if err := json.NewDecoder(r.Body).Decode(&content); err != nil {
			k.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
	}
	switch {
	case k.closesEarly && r.URL.Query().Get("watch") != "":
		return answer(http.StatusOK, io.NopCloser(strings.NewReader("")))
	case r.Method == http.MethodPost:
		k.events = append(k.events, content)
	case r.Method == http.MethodPatch:
		k.patch(content)
	case r.URL.Query().Get("watch") != "":
		return answer(http.StatusOK, k.stream(r))
	default:
		return answer(http.StatusOK, io.NopCloser(bytes.NewReader(k.node())))
	}
	return answer(http.StatusOK, io.NopCloser(strings.NewReader("{}")))
}

// patch merges as the API server does, strategically.
func (k *kube) patch(content map[string]any) {
	k.patches++
	if status, ok := content["status"].(map[string]any); ok {
		for _, c := range status["conditions"].([]any) {
			k.conditions = append(k.conditions, c.(map[string]any))
		}
	}
	if meta, ok := content["metadata"].(map[string]any); ok {
		for name, value := range meta["annotations"].(map[string]any) {
			if text, ok := value.(string); ok {
				k.annotations[name] = text
			} else {
				delete(k.annotations, name)
			}
		}
		k.poke()
	}
}

func (k *kube) poke() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

func (k *kube) node() []byte {
	status := map[string]any{}
	if n := len(k.conditions); n > 0 {
		status["conditions"] = k.conditions[n-1:]
	}
	text, err := json.Marshal(map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"resourceVersion": "7", "annotations": k.annotations}, "status": status})
	if err != nil {
		k.t.Error(err)
	}
	return text
}

// stream sends the node after each change until the request is over.
func (k *kube) stream(r *http.Request) io.ReadCloser {
	reader, writer := io.Pipe()
	go func() {
		for {
			select {
			case <-r.Context().Done():
				_ = writer.CloseWithError(r.Context().Err())
				return
			case <-time.After(time.Duration(watchFor) * time.Second):
				_ = writer.Close()
				return
			case <-k.changed:
				k.mu.Lock()
				node := k.node()
				k.mu.Unlock()
				if _, err := writer.Write([]byte(`{"type":"MODIFIED","object":` + string(node) + "}\n")); err != nil {
					return
				}
			}
		}
	}()
	return reader
}

// annotate sets an annotation as a user or a controller does; "" removes it.
func (k *kube) annotate(name, value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.annotations[name] = value; value == "" {
		delete(k.annotations, name)
	}
	k.poke()
}

func (k *kube) annotation(name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.annotations[name]
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
