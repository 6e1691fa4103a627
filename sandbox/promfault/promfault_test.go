package promfault

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

const good = `{"status":"success","data":{"resultType":"vector","result":[
	{"metric":{"pod":"a"},"value":[1700000000.5,"6"]},{"metric":{"pod":"b"},"value":[1700000000.5,"NaN"]}]}}`

// upstream answers good and remembers the times it was asked about.
func upstream(t *testing.T) (*Proxy, chan string) {
	t.Helper()
	times := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		times <- r.FormValue("time")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, good)
	}))
	t.Cleanup(s.Close)
	p, err := New(s.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p, times
}

func ask(t *testing.T, p *Proxy, path string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL()+path, strings.NewReader(url.Values{"query": {"up"}}.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func TestAnswers(t *testing.T) {
	p, times := upstream(t)
	p.StaleAt(time.UnixMilli(1600000000250))
	for _, c := range []struct {
		answer Answer
		status int
		body   string // a part of it
		err    error  // of reading it
	}{
		{Honest, 200, `"pod":"a"`, nil},
		{Broken, 503, "no healthy upstream", nil},
		{Truncated, 200, `{"status":"success"`, io.ErrUnexpectedEOF},
		{Empty, 200, `"result":[]`, nil},
		{Warned, 200, `"warnings":["fetch`, nil},
		{IsPartial, 200, `"isPartial":true`, nil},
		{ScalarZero, 200, `"resultType":"scalar"`, nil},
		{Login, 200, "<!doctype html>", nil},
		{Honest, 200, `"pod":"b"`, nil},
	} {
		require.NoError(t, p.Answer(c.answer))
		status, body, err := ask(t, p, "/api/v1/query")
		if status != c.status || !strings.Contains(body, c.body) || !errors.Is(err, c.err) {
			t.Errorf("%q: %d %s %v, want %d with %s and %v", c.answer, status, body, err, c.status, c.body, c.err)
		}
	}
	for len(times) > 0 {
		if at := <-times; at != "" {
			t.Errorf("asked about %s", at)
		}
	}
	require.NoError(t, p.Answer(Stale))
	_, body, err := ask(t, p, "/api/v1/query")
	if at := <-times; err != nil || at != "1600000000.250" || strings.Contains(body, "1700000000.5") || !strings.Contains(body, `"NaN"`) {
		t.Errorf("stale: asked about %s, answers %s, %v", at, body, err)
	}
	require.NoError(t, p.Answer(Empty))
	if _, body, err := ask(t, p, "/api/v1/series"); err != nil || body != good {
		t.Errorf("discovery is spoilt: %s, %v", body, err)
	}
}

func TestDownRefusesAndComesBack(t *testing.T) {
	p, _ := upstream(t)
	for range 3 {
		require.NoError(t, p.Answer(Down))
		if _, _, err := ask(t, p, "/api/v1/query"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("down: %v, want a refused connection", err)
		}
		require.NoError(t, p.Answer(Honest))
		if status, _, err := ask(t, p, "/api/v1/query"); status != 200 || err != nil {
			t.Errorf("up again: %d %v", status, err)
		}
	}
}

func TestSlowEndsWithTheFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Proxy{server: &http.Server{}, lifted: make(chan struct{})}
		require.NoError(t, p.Answer(Slow))
		ended := make(chan any, 1)
		go func() {
			defer func() { ended <- recover() }()
			p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/api/v1/query", nil))
		}()
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatal("answered at once")
		}
		require.NoError(t, p.Answer(Honest))
		if how, _ := (<-ended).(error); !errors.Is(how, http.ErrAbortHandler) {
			t.Errorf("it was answered: %v", how)
		}
	})
}

func TestSamples(t *testing.T) {
	one := func(pod string) Sample {
		return Sample{Name: "work", Labels: map[string]string{"namespace": "n", "pod": pod}, Value: 10}
	}
	samples := []Sample{one("b"), one("a"), {Name: "work", Labels: map[string]string{"namespace": "other", "pod": "z"}, Value: 10}}
	for how, want := range map[Samples]string{
		True:        "a=10 b=10 z=10",
		NaN:         "a=NaN b=NaN z=NaN",
		HalfNaN:     "a=10 b=NaN z=10",
		Infinite:    "a=+Inf b=+Inf z=+Inf",
		MinusInf:    "a=-Inf b=-Inf z=-Inf",
		Huge:        "a=1e+300 b=1e+300 z=1e+300",
		Negative:    "a=-10 b=-10 z=-10",
		Zero:        "a=0 b=0 z=0",
		Gone:        "",
		HalfGone:    "a=10 z=10",
		LabelLost:   "=10 =10 =10",
		Doubled:     "a=10 a=10 b=10 b=10 z=10 z=10",
		DoubledZero: "a=10 a=0 b=10 b=0 z=10 z=0",
	} {
		var got []string
		lines := map[string]bool{}
		p := NewPage(func(context.Context) ([]Sample, error) { return samples, nil })
		p.Serve(how)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for line := range strings.Lines(w.Body.String()) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			lines[name] = true
			_, pod, _ := strings.Cut(name, `pod="`)
			pod, _, _ = strings.Cut(pod, `"`)
			got = append(got, pod+"="+value)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", how, text, want)
		}
		if len(lines) != len(got) {
			t.Errorf("%s: a series is twice on the page: %v", how, lines)
		}
	}
	if samples[0].Value != 10 || len(samples[0].Labels) != 2 {
		t.Errorf("the source has changed: %v", samples[0])
	}
}
