package prom_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/sigv4"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

func client(t *testing.T, cfg prom.Config) *prom.Client {
	t.Helper()
	c, err := prom.New(cfg)
	require.NoError(t, err)
	return c
}

// httpConfig reads the configuration's field http.
func httpConfig(t *testing.T, text string) (h prom.HTTP) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &h))
	return h
}

func TestQueryReturnsTheVector(t *testing.T) {
	server := promtest.New(t)
	at := time.UnixMilli(1700000000250)
	server.Answer(promtest.Response{At: at, Vector: []promtest.Series{
		{Labels: map[string]string{"__name__": "up", "pod": "b", "a": ""}, Value: 1.5},
		{Labels: map[string]string{"pod": "a"}, Value: math.NaN()},
		{Labels: map[string]string{"pod": "c"}, Value: math.Inf(-1)},
	}})
	v, err := client(t, prom.Config{URL: server.URL, Timeout: 2500 * time.Millisecond, HTTP: httpConfig(t, `{"http_headers": {"X-Scope-OrgID": {"values": ["team"]}}}`)}).
		Query(t.Context(), `up{pod=~".+"}`, at)
	require.NoError(t, err)
	if len(v) != 3 || v[0].Labels.Get("pod") != "b" || v[0].Value != 1.5 || !v[0].Time.Equal(at) {
		t.Errorf("vector %v", v)
	}
	if v[0].Labels.Len() != 2 {
		t.Errorf("an empty label is no label: %v", v[0].Labels)
	}
	if !math.IsNaN(v[1].Value) || !math.IsInf(v[2].Value, -1) {
		t.Errorf("NaN and infinities must come through for the caller to judge: %v", v[1:])
	}
	q := server.Queries()[0]
	if got := q.PostForm.Get("query"); got != `up{pod=~".+"}` {
		t.Errorf("query %q", got)
	}
	if got := q.PostForm.Get("timeout"); got != "2.500" { // Prometheus cannot parse 2.5s
		t.Errorf("timeout %q", got)
	}
	if got := q.PostForm.Get("time"); got != "1700000000.250" {
		t.Errorf("time %q", got)
	}
	if got := q.PostForm.Get("latency_offset"); got != "1ms" {
		t.Errorf("VictoriaMetrics would answer with samples that are half a minute old: latency_offset %q", got)
	}
	if got := q.PostForm.Get("partial_response"); got != "false" {
		t.Errorf("Thanos' query frontend would answer without the series of a store that is away: partial_response %q", got)
	}
	if got := q.Header.Get("X-Scope-OrgID"); got != "team" {
		t.Errorf("header %q", got)
	}
	if got := q.Header.Get("Cache-Control"); got != "no-cache, no-store" {
		t.Errorf("a cache in between would answer: Cache-Control %q", got)
	}
}

func TestFailuresHaveAKind(t *testing.T) {
	one := []promtest.Series{{Labels: map[string]string{"pod": "a"}, Value: 1}}
	many := []promtest.Series{one[0], one[0], one[0], one[0]}
	cases := []struct {
		name   string
		answer promtest.Response
		kind   error
		says   string
	}{
		{"bad query", promtest.Response{Status: 400, Body: `{"status":"error","errorType":"bad_data","error":"parse error"}`}, prom.ErrBadQuery, "parse error"},
		{"execution", promtest.Response{Status: 422, Body: `{"status":"error","errorType":"execution","error":"many-to-many"}`}, prom.ErrBadQuery, "many-to-many"},
		{"overload", promtest.Response{Status: 503, Body: `{"status":"error","errorType":"timeout","error":"query timed out"}`}, prom.ErrUnavailable, "503"},
		{"proxy page", promtest.Response{Status: 502, Body: `<html>bad gateway</html>`}, prom.ErrUnavailable, "HTTP 502: no reason given"},
		{"login page", promtest.Response{Body: `<html>sign in</html>`}, prom.ErrUnavailable, "reading the answer: it is a web page"},
		{"nothing", promtest.Response{Body: " "}, prom.ErrUnavailable, "reading the answer: it is empty, no JSON"},
		{"unauthorized", promtest.Response{Status: 401, Body: "no org id\n"}, prom.ErrUnavailable, "HTTP 401: no org id"},
		{"Amazon's", promtest.Response{Status: 400, Body: `{"message":"Missing Authentication Token"}`}, prom.ErrBadQuery, "Missing Authentication Token"},
		{"http at a port of https", promtest.Response{Status: 400, Body: "Client sent an HTTP request to an HTTPS server.\n"}, prom.ErrBadQuery, "HTTP 400: Client sent an HTTP request to an HTTPS server."},
		{"vmauth's path", promtest.Response{Status: 400, Body: "missing route for \"/api/v1/query?token=hush\"\n"}, prom.ErrBadQuery, "missing route for \"/api/v1/query"},
		{"too busy", promtest.Response{Status: 429, Body: `{"status":"error","errorType":"too_many_requests","error":"later"}`}, prom.ErrUnavailable, "later"},
		{"truncated", promtest.Response{Body: `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"1"]}`}, prom.ErrUnavailable, "reading"},
		{"error with 200", promtest.Response{Body: `{"status":"error","error":"odd"}`}, prom.ErrUnavailable, "odd"},
		{"no data", promtest.Response{Body: `{"status":"success"}`}, prom.ErrBadQuery, "not a vector"},
		{"scalar", promtest.Response{Body: `{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`}, prom.ErrBadQuery, "scalar"},
		{"histogram", promtest.Response{Body: `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{}]}]}}`}, prom.ErrBadQuery, "histogram"},
		{"value is not a number", promtest.Response{Body: `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}`}, prom.ErrUnavailable, "value"},
		{"warnings", promtest.Response{Vector: one, Warnings: []string{"store down"}}, prom.ErrPartial, "store down"},
		{"too many series", promtest.Response{Vector: many}, prom.ErrTooLarge, "3 series"},
		{"too many bytes", promtest.Response{Body: `{"status":"success","x":"` + strings.Repeat("x", 5000) + `"}`}, prom.ErrTooLarge, "body"},
		{"slow", promtest.Response{Delay: time.Minute}, prom.ErrUnavailable, "deadline"},
	}
	kinds := []error{prom.ErrBadQuery, prom.ErrUnavailable, prom.ErrPartial, prom.ErrTooLarge}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := promtest.New(t)
			server.Answer(c.answer)
			timeout := time.Minute // what answers at once is not called slow on a busy machine
			if c.answer.Delay > 0 {
				timeout = 500 * time.Millisecond
			}
			v, err := client(t, prom.Config{URL: server.URL, MaxSeries: 3, MaxResponseBytes: 4096, Timeout: timeout}).
				Query(t.Context(), "up", time.Time{})
			if v != nil {
				t.Errorf("a failure came with a vector: %v", v)
			}
			for _, k := range kinds {
				if errors.Is(err, k) != errors.Is(k, c.kind) {
					t.Errorf("errors.Is(%v, %v) is %v", err, k, errors.Is(err, k))
				}
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hush") {
				t.Errorf("error %v does not say %q", err, c.says)
			}
			if refused := slices.Contains([]string{"unauthorized", "too busy"}, c.name); errors.Is(err, prom.ErrRefused) != refused {
				t.Errorf("%v: refused is %v", err, !refused)
			}
		})
	}
}

func TestTheCallersCancellingIsNotHidden(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client(t, prom.Config{URL: "http://127.0.0.1:1"}).Query(ctx, "up", time.Time{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRedirectsAreRefused(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/login", http.StatusFound))
	defer server.Close()
	_, err := client(t, prom.Config{URL: server.URL}).Query(t.Context(), "up", time.Time{})
	if !errors.Is(err, prom.ErrUnavailable) || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("%v", err)
	}
}

func TestCredentialsAreReadAgain(t *testing.T) {
	server := promtest.New(t)
	token := filepath.Join(t.TempDir(), "token")
	cfg := prom.Config{URL: server.URL}
	cfg.HTTP.BearerTokenFile(token)
	c := client(t, cfg)
	if _, err := c.Query(t.Context(), "up", time.Time{}); !errors.Is(err, prom.ErrUnavailable) {
		t.Errorf("without its token: %v", err)
	}
	for i, secret := range []string{"one", "two"} {
		require.NoError(t, os.WriteFile(token, []byte(secret+"\n"), 0o600))
		_, err := c.Query(t.Context(), "up", time.Time{})
		require.NoError(t, err)
		if got := server.Queries()[i].Header.Get("Authorization"); got != "Bearer "+secret {
			t.Errorf("Authorization %q", got)
		}
	}
}

func TestAuthorize(t *testing.T) {
	server := promtest.New(t)
	for i, value := range []string{"Basic bWU6YTpi", "Bearer hush", "Other a b"} {
		cfg := prom.Config{URL: server.URL}
		cfg.HTTP.BearerTokenFile("/no/such/token") // it goes before that
		require.NoError(t, cfg.HTTP.Authorize(value))
		_, err := client(t, cfg).Query(t.Context(), "up", time.Time{})
		require.NoError(t, err)
		if got := server.Queries()[i].Header.Get("Authorization"); got != value {
			t.Errorf("%q is sent as %q", value, got)
		}
	}
	if err := new(prom.HTTP).Authorize("Basic hush!"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("no base64: %v", err)
	}
}

func TestValidateSaysEverything(t *testing.T) {
	bad := prom.Config{
		URL: "http://h?token=hush", Method: "PUT", SigV4: &prom.SigV4{SigV4Config: sigv4.SigV4Config{ExternalID: "x"}},
		Parameters: map[string]string{"query": "up"}, MaxSeries: -1,
	}
	bad.HTTP.BasicAuth = &config.BasicAuth{Username: "me"}
	bad.HTTP.Header("authorization", config.Header{Values: []string{"x"}})
	err := bad.Validate()
	for _, want := range []string{"url: must end", "method:", "sigv4: excludes", "sigv4: external_id", `http: setting header "Authorization"`, `parameters: "query"`, "maxSeries:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("a secret in %v", err)
	}
	if err := (prom.Config{URL: "http://u:p@h"}).Validate(); err == nil || strings.Contains(err.Error(), "u:p") {
		t.Errorf("credentials in the URL: %v", err)
	}
}

// Prometheus' own fields are read strictly, in JSON too.
func TestAnUnknownFieldIsAnError(t *testing.T) {
	for _, text := range []string{`{"http": {"authorisation": {}}}`, `{"sigv4": {"external_id": "no role"}}`, `{"sigv4": {"regoin": "x"}}`} {
		var c prom.Config
		if err := json.Unmarshal([]byte(text), &c); err == nil {
			t.Errorf("%s is read as %+v", text, c)
		}
	}
	var c prom.Config
	if err := json.Unmarshal([]byte(`{"http": {"tls_config": {"ca_file": "ca"}}, "sigv4": {"role_arn": "r"}}`), &c); err != nil || c.HTTP.TLSConfig.CAFile != "ca" || c.SigV4.RoleARN != "r" {
		t.Errorf("%+v, %v", c, err)
	}
}
