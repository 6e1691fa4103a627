package prom

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

// answering returns a client of a server with one answer to every request, and the last request.
func answering(t *testing.T, status int, text string) (*Client, *http.Request) {
	t.Helper()
	asked := &http.Request{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		*asked = *r
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL + "/base", MaxSeries: 2, Parameters: map[string]string{"tenant": "a"}})
	require.NoError(t, err)
	return c, asked
}

func TestRange(t *testing.T) {
	c, asked := answering(t, 200, `{"status":"success","data":{"resultType":"matrix","result":[
		{"metric":{"a":"b"},"values":[[100,"1"],[160.5,"NaN"],[220,"2.5"]]}]}}`)
	lines, err := c.Range(t.Context(), "up", time.Unix(100, 0), time.Unix(220, 0), time.Minute)
	require.NoError(t, err)
	if len(lines) != 1 || lines[0].Labels.Get("a") != "b" || len(lines[0].Points) != 3 ||
		lines[0].Points[2].Value != 2.5 || !lines[0].Points[1].Time.Equal(time.UnixMilli(160500)) {
		t.Errorf("lines %+v", lines)
	}
	if f := asked.Form; asked.URL.Path != "/base/api/v1/query_range" || f.Get("tenant") != "a" || f.Get("query") != "up" || f.Get("start") != "100.000" || f.Get("end") != "220.000" || f.Get("step") != "60.000" {
		t.Errorf("asked %s %v", asked.URL.Path, f)
	}
}

func TestRangeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		answer string
		want   error
	}{
		"a vector":  {200, `{"status":"success","data":{"resultType":"vector","result":[]}}`, ErrBadQuery},
		"too many":  {200, `{"status":"success","data":{"resultType":"matrix","result":[{},{},{}]}}`, ErrTooLarge},
		"no number": {200, `{"status":"success","data":{"resultType":"matrix","result":[{"values":[[1,"x"]]}]}}`, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := answering(t, c.status, c.answer)
			if lines, err := client.Range(t.Context(), "up", time.Unix(0, 0), time.Unix(60, 0), time.Minute); !errors.Is(err, c.want) || lines != nil {
				t.Errorf("%v, err = %v, want %v", lines, err, c.want)
			}
		})
	}
}
