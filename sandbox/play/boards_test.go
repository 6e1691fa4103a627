package play

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// answers starts a Prometheus that gives the same answer to all queries.
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
