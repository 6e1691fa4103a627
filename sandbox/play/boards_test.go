package play

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/preview"
)

// answers is a Prometheus that answers all queries with one text.
func answers(t *testing.T, code int, text string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const nothing = `{"status":"success","data":{"resultType":"vector","result":[]}}`

func TestBoardsAreServedUntilTheEnd(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	url, wait, err := serveBoards(ctx, answers(t, http.StatusOK, nothing), time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	code, page := get(t, url)
	if code != http.StatusOK || !strings.Contains(page, preview.Label) {
		t.Errorf("%s: %d\n%.300s", url, code, page)
	}
	end()
	wait()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Error("the boards are still served")
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestAlertsAreUnknownWithoutPrometheus(t *testing.T) {
	got, err := alertsSince(t.Context(), answers(t, http.StatusInternalServerError, "no"), began, ended)
	if err == nil || got.Known {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = alertsSince(t.Context(), answers(t, http.StatusOK, nothing), began, ended)
	if err != nil || !got.Known || len(got.Fired)+len(got.Pending) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	one := `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"alertname":"GpuscaleAdapterDown","severity":"critical"},"value":[1,"1"]}]}}`
	got, err = alertsSince(t.Context(), answers(t, http.StatusOK, one), began, ended)
	if err != nil || len(got.Fired) != 1 || got.Fired[0].Name != "GpuscaleAdapterDown" || got.Fired[0].Severity != "critical" || len(got.Pending) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
