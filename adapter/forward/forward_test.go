package forward

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/internal/require"
)

func TestConfigIsJudgedWithFieldPaths(t *testing.T) {
	for _, c := range []struct {
		target Target
		says   string // "" if it is fine
	}{
		{Target{Service: "keda-operator-metrics-apiserver.keda:443", CAFile: "ca.crt"}, ""},
		{Target{URL: "https://keda.example:6443"}, ""},
		{Target{Service: "a.b", Identity: Caller, CertFile: "c", KeyFile: "k"}, ""},
		{Target{}, "service: give either service or url"},
		{Target{Service: "a.b", URL: "https://x"}, "service: give either"},
		{Target{Service: "https://a"}, `service: "https://a" is not`},
		{Target{Service: "a.b/../c"}, "service"},
		{Target{URL: "http://keda"}, "in the clear"},
		{Target{URL: "https://u:secret@keda"}, "host and port only"},
		{Target{URL: "https://keda/path"}, "host and port only"},
		{Target{Service: "a.b", Identity: Caller}, "certFile: identity"},
		{Target{Service: "a.b", Identity: Caller, CertFile: "c", KeyFile: "k", TokenFile: "t"}, "tokenFile"},
		{Target{Service: "a.b", CertFile: "c"}, "keyFile"},
		{Target{Service: "a.b", CertFile: "c", KeyFile: "k", TokenFile: "t"}, "tokenFile"},
		{Target{Service: "a.b", Identity: "theirs"}, `identity: "theirs"`},
		{Target{Service: "a.b", Timeout: time.Hour}, "timeout"},
	} {
		err := c.target.Validate()
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%+v: %v, want %q", c.target, err, c.says)
		}
	}
	if u, err := (Target{Service: "keda.ns:443"}).base(); err != nil || u.String() != "https://keda.ns.svc:443" {
		t.Errorf("%v, %v", u, err)
	}
}

// nothing is a provider without metrics.
type nothing struct{ cma.MetricsProvider }

func (nothing) ListAllExternalMetrics() []cma.ExternalMetricInfo { return nil }

// roundTrip is a server without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func says(code int, body string) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// TestNamesAreTheLastGoodOnes, KEDA's placeholder included, without those we know; that some are known to
// both is logged once.
func TestNamesAreTheLastGoodOnes(t *testing.T) {
	var log bytes.Buffer
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("x"), 0o600))
	f, err := New(Target{URL: "https://keda", TokenFile: token}, nothing{}, func(name string) bool { return name == "queue_depth" },
		prometheus.NewRegistry(), slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	list := func(answer roundTrip) error {
		c := Target{TokenFile: token}.config("https://keda")
		c.WrapTransport = func(http.RoundTripper) http.RoundTripper { return answer }
		f.client, err = client(c)
		require.NoError(t, err)
		return f.list(t.Context())
	}
	if f.ListAllExternalMetrics() != nil {
		t.Error("names before any answer")
	}
	good := says(200, `{"kind":"APIResourceList","resources":[{"name":"z"},{"name":"queue_depth"},{"name":"a"},{"name":"a"},{"name":"externalmetrics"},{"name":"pods/x"},{"name":""}]}`)
	for _, c := range []struct {
		what   string
		answer roundTrip
		fails  bool
	}{
		{"good", good, false},
		{"good again", good, false},
		{"an error", says(500, "{}"), true},
		{"another kind", says(200, `{"kind":"Status"}`), true},
		{"no JSON", says(200, `<html>`), true},
		{"unreachable", func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, true},
	} {
		if err := list(c.answer); (err != nil) != c.fails {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := fmt.Sprint(f.ListAllExternalMetrics()); got != "[{a} {externalmetrics} {z}]" {
			t.Errorf("%s: names %q", c.what, got)
		}
	}
	if n := strings.Count(log.String(), "served by this one"); n != 1 || !strings.Contains(log.String(), "metrics=queue_depth") {
		t.Errorf("logged %d times: %s", n, &log)
	}
}

// FuzzNames: whatever the other server lists, discovery stays bounded and
// names only what a request can name.
func FuzzNames(f *testing.F) {
	f.Add([]byte(`{"kind":"APIResourceList","resources":[{"name":"a"},{"name":"../b"}]}`))
	f.Add([]byte(`{"kind":"APIResourceList","resources":null}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var list metav1.APIResourceList
		if json.Unmarshal(raw, &list) != nil {
			return
		}
		names := namesOf(list)
		if len(names) > maxNames {
			t.Fatalf("%d names", len(names))
		}
		for i, name := range names {
			if name == "" || len(content.IsPathSegmentName(name)) > 0 || i > 0 && names[i-1] >= name {
				t.Errorf("name %q after %q", name, names[max(i-1, 0)])
			}
		}
	})
}
