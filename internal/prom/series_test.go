package prom

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func seriesOf(t *testing.T, status int, body string) ([]Family, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/api/v1/series" || r.FormValue("match[]") != `{a!=""}` || r.FormValue("start") != "12.500" {
			t.Errorf("%s with %v", r.URL.Path, r.Form)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	c, err := New(Config{URL: server.URL + "/base", MaxSeries: 2})
	if err != nil {
		t.Fatal(err)
	}
	return c.Series(t.Context(), `{a!=""}`, time.UnixMilli(12_500))
}

func TestSeriesAreFamilies(t *testing.T) {
	got, err := seriesOf(t, 200, `{"status":"success","data":[
		{"__name__":"up","pod":"a","job":"x"},{"__name__":"up","job":"y","pod":"b","empty":""},{"__name__":"down"}]}`)
	if err != nil || len(got) != 2 || got[0].Name != "up" || !slices.Equal(got[0].Labels, []string{"job", "pod"}) || got[1].Name != "down" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestSeriesErrors(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		want   error
	}{
		{400, `{"status":"error","errorType":"bad_data","error":"no"}`, ErrBadQuery},
		{503, `{"status":"error"}`, ErrUnavailable},
		{200, `{"status":"success","data":[{"__name__":"up"}`, ErrUnavailable},
		{200, `{"status":"success","data":{"resultType":"vector"}}`, ErrUnavailable},
		{200, `{"status":"success","data":[],"warnings":["a store is away"]}`, ErrPartial},
		{200, `{"status":"success","isPartial":true,"data":[]}`, ErrPartial},
		{200, `{"status":"success","data":[{"__name__":"a"},{"__name__":"b"},{"__name__":"c"}]}`, ErrTooLarge},
	} {
		if got, err := seriesOf(t, tc.status, tc.body); !errors.Is(err, tc.want) {
			t.Errorf("%d %s: %v, %v; want %v", tc.status, tc.body, got, err, tc.want)
		}
	}
}

// FuzzDecodeSeries: whatever a server sends, reading it ends and holds to its
// limit.
func FuzzDecodeSeries(f *testing.F) {
	f.Add(`{"status":"success","data":[{"__name__":"up","pod":"a"}],"warnings":["w"]}`)
	f.Add(`{"data":null}`)
	f.Add(`{"data":[1]}`)
	f.Fuzz(func(t *testing.T, body string) {
		if _, families, _ := decodeSeries(strings.NewReader(body), 2); len(families) > 2 {
			t.Fatalf("%d families held", len(families))
		}
	})
}
