package prom

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestRetention(t *testing.T) {
	for _, c := range []struct {
		name, body string
		code       int
		want       string
		err        error
	}{
		{"Prometheus", `{"status":"success","data":{"startTime":"x","storageRetention":"30d or 512GiB"}}`, 200, "30d or 512GiB", nil},
		{"one that leaves it out", `{"status":"success","data":{}}`, 200, "", nil},
		{"one that has no such page", `not found`, 404, "", nil},
		{"VictoriaMetrics, which has none", `unsupported path requested: "/api/v1/status/runtimeinfo"`, 400, "", nil},
		{"one that refuses the request", `{"status":"error","errorType":"bad_data","error":"no"}`, 400, "", ErrBadQuery},
		{"one that wants a credential", `who are you?`, 401, "", ErrUnavailable},
		{"one that is no Prometheus", `<html>`, 200, "", ErrUnavailable},
		{"one that does not stop", `{"data":{"storageRetention":"` + strings.Repeat("x", 1<<20), 200, "", ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, asked := answering(t, c.code, c.body)
			got, err := client.Retention(t.Context())
			if got != c.want || !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Errorf("%q, %v; want %q, %v", got, err, c.want, c.err)
			}
			if asked.Method != http.MethodGet || asked.URL.Path != "/base/api/v1/status/runtimeinfo" || asked.URL.Query().Get("tenant") != "a" {
				t.Errorf("%s %s", asked.Method, asked.URL)
			}
		})
	}
}
