package prom

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/config"
)

// An error names the endpoint without parameters and headers: they may be secret, and errors reach logs and the answers
// of the metrics API.
func TestErrorsNameTheEndpoint(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, method := range []string{"GET", "POST"} {
		cfg := Config{URL: gone.URL + "/base", Method: method, Parameters: map[string]string{"key": "hush"}}
		cfg.HTTP.Header("X-Api-Key", config.Header{Values: []string{"hush"}})
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		asks := map[string]func() error{
			"query": func() error { _, err := c.Query(t.Context(), "up", time.Time{}); return err },
			"query_range": func() error {
				_, err := c.Range(t.Context(), "up", time.Unix(0, 0), time.Unix(60, 0), time.Minute)
				return err
			},
			"series": func() error { _, err := c.Series(t.Context(), `{a!=""}`, time.Unix(0, 0)); return err },
		}
		for endpoint, ask := range asks {
			err := ask()
			if !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), method+" "+gone.URL+"/base/api/v1/"+endpoint+": ") || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s %s: %v", method, endpoint, err)
			}
		}
	}
}
