package prom

import (
	"errors"
	"slices"
	"testing"
	"time"
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
