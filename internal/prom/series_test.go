package prom

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

func seriesOf(t *testing.T, status int, body string) ([]Family, error) {
	t.Helper()
	c, asked := answering(t, status, body)
	got, err := c.Series(t.Context(), `{a!=""}`, time.UnixMilli(12_500))
	if f := asked.Form; asked.URL.Path != "/base/api/v1/series" || f.Get("match[]") != `{a!=""}` || f.Get("start") != "12.500" {
		t.Errorf("%s with %v", asked.URL.Path, f)
	}
	return got, err
}

func TestSeriesAreFamilies(t *testing.T) {
	got, err := seriesOf(t, 200, `{"status":"success","data":[
		{"__name__":"up","pod":"a","job":"x"},{"__name__":"up","job":"y","pod":"b","empty":""},{"__name__":"down"}]}`)
	if err != nil || len(got) != 2 || got[0].Name != "up" || !slices.Equal(got[0].Labels, []string{"job", "pod"}) || got[1].Name != "down" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestAListOfSeriesMayBeLong: prometheus-adapter's own rules list every series with a namespace, without a bound. Here
// a query fails in the time that the list may take, and the list is completed although it is longer than any other
// answer may be.
func TestAListOfSeriesMayBeLong(t *testing.T) {
	const most = 4096
	slow := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/query" {
			<-r.Context().Done()
			return
		}
		select {
		case <-slow:
			_, _ = w.Write([]byte(`{"status":"success","data":[` + strings.Repeat(`{"__name__":"up"},`, most/10) + `{"__name__":"down"}]}`))
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	c, err := New(Config{URL: server.URL, Method: http.MethodGet, Timeout: 300 * time.Millisecond, MaxResponseBytes: most})
	require.NoError(t, err)
	go func() {
		defer close(slow)
		if _, err := c.Query(t.Context(), "up", time.Time{}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("the query: %v", err)
		}
	}()
	got, err := c.Series(t.Context(), `{a!=""}`, time.Now())
	if err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSeriesErrors(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   error
	}{
		{200, `{"status":"success","data":[{"__name__":"up"}`, ErrUnavailable},
		{200, `{"status":"success","data":{"resultType":"vector"}}`, ErrUnavailable},
		{200, `{"status":"success","isPartial":true,"data":[]}`, ErrPartial},
		{200, `{"status":"success","data":[{"__name__":"a"},{"__name__":"b"},{"__name__":"c"}]}`, ErrTooLarge},
	} {
		if got, err := seriesOf(t, tc.status, tc.body); !errors.Is(err, tc.want) {
			t.Errorf("%d %s: %v, %v; want %v", tc.status, tc.body, got, err, tc.want)
		}
	}
}
