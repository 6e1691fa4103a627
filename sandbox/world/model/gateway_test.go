package model

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/require"
)

func TestGatewayServesVLLMsNames(t *testing.T) {
	now := time.Unix(0, 0)
	g := NewGateway(Chat13B(), 20, func() time.Time { return now })
	require.NoError(t, g.Add("chat/vllm-0", half, 2*time.Second))
	require.NoError(t, g.Play(steady(200, 100*time.Millisecond)))

	now = now.Add(time.Second)
	if code, _ := scrape(g, "chat/vllm-0"); code != http.StatusServiceUnavailable {
		t.Errorf("while loading: %d, want 503", code)
	}
	now = now.Add(2 * time.Second) // 60 s of traffic time, 20 s after the model was loaded
	code, body := scrape(g, "chat/vllm-0")
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, body)
	}
	for _, r := range metric.Reads() {
		if old := r.Name == metric.VLLMCacheUsageOld.Name || r.Name == metric.VLLMPreemptions.Name; r.Server == metric.ServerVLLM && !old && !strings.Contains(body, r.Name) {
			t.Errorf("no %s", r.Name)
		}
	}
	if _, err := promlint.New(strings.NewReader(body)).Lint(); err != nil {
		t.Errorf("the exposition does not parse: %v", err)
	}
	if l, ok := g.Load("chat/vllm-0"); !ok || l.MemoryBytes < 30<<30 || l.MemoryBytes > 40<<30 {
		t.Errorf("load %+v: vLLM fills 90 %% of its 40 GiB", l)
	}
	g.Remove("chat/vllm-0")
	if code, _ := scrape(g, "chat/vllm-0"); code != http.StatusServiceUnavailable {
		t.Errorf("after it has gone: %d, want 503", code)
	}
	if c := g.Counts(); c.Queued+c.Done != c.Arrived {
		t.Errorf("without servers all open requests wait at the gateway: %+v", c)
	}
}

// TestWhenItIsCounted: a prompt counts with its first token, and the queue time when the request ends.
func TestWhenItIsCounted(t *testing.T) {
	now := time.Unix(0, 0)
	g := NewGateway(Chat13B(), 1, func() time.Time { return now })
	require.NoError(t, g.Add("a", half, 0))
	require.NoError(t, g.Play(steady(3, 0)))
	for _, c := range []struct {
		after           time.Duration
		prompts, queued string
	}{{100 * time.Millisecond, "0", "0"}, {3 * time.Second, "3465", "0"}, {time.Minute, "3465", "3"}} {
		now = now.Add(c.after)
		_, body := scrape(g, "a")
		const labels = `{engine="0",model_name="chat-13b"} `
		for _, want := range []string{"vllm:prompt_tokens_total" + labels + c.prompts + "\n", "vllm:request_queue_time_seconds_count" + labels + c.queued + "\n"} {
			if !strings.Contains(body, want) {
				t.Errorf("%+v: not %q in\n%s", g.Counts(), want, body)
			}
		}
	}
}

func scrape(g *Gateway, id string) (int, string) {
	w := httptest.NewRecorder()
	g.Handler(id).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Code, w.Body.String()
}
