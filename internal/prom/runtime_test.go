package prom

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
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
		{"one that wants a credential", `who are you?`, 401, "", ErrUnavailable},
		{"one that is no Prometheus", `<html>`, 200, "", ErrUnavailable},
		{"one that does not stop", `{"data":"` + strings.Repeat("x", maxRuntimeBytes), 200, "", ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/base/api/v1/status/runtimeinfo" || r.URL.Query().Get("tenant") != "a" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			}))
			defer s.Close()
			client, err := New(Config{URL: s.URL + "/base", Parameters: map[string]string{"tenant": "a"}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.Retention(t.Context())
			if got != c.want || !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Errorf("%q, %v; want %q, %v", got, err, c.want, c.err)
			}
		})
	}
}

func FuzzRetention(f *testing.F) {
	f.Add(`{"data":{"storageRetention":"15d"}}`)
	f.Add(`{"data":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		defer s.Close()
		client, err := New(Config{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := client.Retention(t.Context()); err != nil && got != "" {
			t.Errorf("%q with %v", got, err)
		}
	})
}
