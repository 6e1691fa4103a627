package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/adapter/forward"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

// fakeKEDA answers as KEDA's metrics API server does, to callers that it authorizes. A metric without a scaler is a
// plain error there, which the API machinery makes a 500: checked against KEDA 2.21.0 (pkg/provider, pkg/scaling,
// pkg/metricsservice) on 2026-11-28.
type fakeKEDA struct {
	ca       *promtest.Authority
	server   *httptest.Server
	mu       sync.Mutex
	requests []*http.Request
}

func newFakeKEDA(t *testing.T) *fakeKEDA {
	k := &fakeKEDA{ca: promtest.NewAuthority(t, "keda")}
	k.server = httptest.NewUnstartedServer(k)
	k.server.TLS = &tls.Config{Certificates: []tls.Certificate{*k.ca.Pair(t, "keda")}, ClientCAs: k.ca.Pool(), ClientAuth: tls.VerifyClientCertIfGiven}
	k.server.StartTLS()
	t.Cleanup(k.server.Close)
	return k
}

func (k *fakeKEDA) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.requests = append(k.requests, r)
	k.mu.Unlock()
	trusted := len(r.TLS.PeerCertificates) > 0 && r.Header.Get("X-Remote-User") != ""
	if !trusted && r.Header.Get("Authorization") != "Bearer our-token" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/s0-prometheus":
		_, _ = io.WriteString(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[{"metricName":"s0-prometheus","value":"42"}]}`)
	case "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/moved":
		http.Redirect(w, r, "https://example.invalid/", http.StatusFound)
	case "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/endless":
		for range 3 << 10 {
			_, _ = w.Write(make([]byte, 1<<10))
		}
	case "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/forbidden":
		w.WriteHeader(http.StatusForbidden)
	default:
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"rpc error: code = Unknown desc = error when getting metric values no matching metrics found for it","code":500}`)
	}
}

func (k *fakeKEDA) last() *http.Request {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.requests) == 0 {
		return nil
	}
	return k.requests[len(k.requests)-1]
}

func writeFile(t testing.TB, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return file
}

func (k *fakeKEDA) target(t *testing.T, token string) forward.Target {
	return forward.Target{
		URL:    k.server.URL,
		CAFile: writeFile(t, "ca.crt", k.ca.PEM), TokenFile: writeFile(t, "token", []byte(token)),
	}
}

func forwarder(t *testing.T, target forward.Target) (*forward.Forwarder, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	known := func(name string) (bool, error) {
		if name == "late" {
			return false, errors.New("its series have not been listed yet")
		}
		return name == "queue_depth", nil
	}
	f, err := forward.New(target, &answering{}, known, reg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return f, reg
}

const externalChat = "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/"

// TestUnknownMetricsGoToKEDA, through the API server as main builds it: answers and refusals of KEDA are returned
// unchanged, our metrics are answered by us, and no unauthorized caller's request is forwarded.
func TestUnknownMetricsGoToKEDA(t *testing.T) {
	kube, keda := newFakeKube(t, "hpa"), newFakeKEDA(t)
	f, reg := forwarder(t, keda.target(t, "our-token"))
	server := startServer(t, kube, f)
	hpa, noCaller := server.client(t, kube.clientCA, "hpa"), server.client(t, kube.clientCA, "unknown")

	for _, c := range []struct {
		client *http.Client
		path   string
		code   int
		says   string
	}{
		{hpa, externalChat + "s0-prometheus?labelSelector=scaledobject.keda.sh%2Fname%3Dx", 200, `"value":"42"`},
		{hpa, externalChat + "s9-unheard", 500, "no matching metrics found"},
		{hpa, externalChat + "queue_depth", 200, `"value":"7"`},
		{hpa, externalChat + "forbidden", 503, "grant its service account get and list"},
		{hpa, externalChat + "moved", 503, "unexpected HTTP 302"},
		{hpa, externalChat + "endless", 503, "longer than"},
		{noCaller, externalChat + "s0-prometheus", 403, `"hpa"`},
		{hpa, "/apis/external.metrics.k8s.io/v1beta1", 200, `"name":"externalmetrics"`}, // KEDA's placeholder for all of its metrics
	} {
		code, body := server.get(t, c.client, c.path, nil)
		if code != c.code || c.code != 403 && !strings.Contains(body, c.says) {
			t.Errorf("%s: HTTP %d, want %d with %q: %s", c.path, code, c.code, c.says, body)
		}
		if c.code == 503 && !strings.Contains(body, `"kind":"Status"`) {
			t.Errorf("%s: no Status: %s", c.path, body)
		}
	}
	if page, err := testutil.CollectAndFormat(reg, expfmt.TypeTextPlain, metric.AdapterForwarded.Name); err != nil || !strings.Contains(string(page), `{code="200"} 1`) {
		t.Errorf("forwarded with 200: %v\n%s", err, page)
	}
	before := len(keda.requests)
	server.get(t, noCaller, externalChat+"s0-prometheus", nil)
	server.get(t, hpa, externalChat+"queue_depth", nil)
	server.get(t, hpa, "/apis/custom.metrics.k8s.io/v1beta2/namespaces/chat/pods/a/s0-prometheus", nil)
	if n := len(keda.requests); n != before {
		t.Errorf("%d requests reached KEDA that were none of its business", n-before)
	}

	// KEDA sees the adapter's token and the selector, and nothing else that the caller sent.
	hostile := http.Header{
		"Authorization": {"Bearer token-of-hpa"}, "X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"},
		"Cookie": {"c"}, "X-Forwarded-For": {"1.2.3.4"},
	}
	tokenOnly := server.client(t, nil, "")
	if code, body := server.get(t, tokenOnly, externalChat+"s0-prometheus?labelSelector=a%3Db%26c&watch=false&x=y", hostile); code != 400 && code != 200 {
		t.Errorf("HTTP %d: %s", code, body)
	}
	server.get(t, tokenOnly, externalChat+"s0-prometheus?labelSelector=a%3Db&x=y", hostile)
	r := keda.last()
	if len(keda.requests) == before || r.Header.Get("Authorization") != "Bearer our-token" || r.URL.RawQuery != "labelSelector=a%3Db" || r.Header.Get(forward.Hop) == "" {
		t.Errorf("%s with %v", r.URL, r.Header)
	}
	for _, name := range []string{"X-Remote-User", "X-Remote-Group", "Cookie", "X-Forwarded-For"} {
		if r.Header.Get(name) != "" {
			t.Errorf("%s: %s was passed on", name, r.Header.Get(name))
		}
	}
}

// TestInTheCallersName forwards with a client certificate of the other server's request-header CA.
func TestInTheCallersName(t *testing.T) {
	kube, keda := newFakeKube(t), newFakeKEDA(t)
	cert, key := keda.ca.Issue(t, "front-proxy-client")
	target := forward.Target{
		URL: keda.server.URL, Identity: forward.Caller, CAFile: writeFile(t, "ca.crt", keda.ca.PEM),
		CertFile: writeFile(t, "tls.crt", cert), KeyFile: writeFile(t, "tls.key", key),
	}
	f, _ := forwarder(t, target)
	server := startServer(t, kube, f)
	if code, body := server.get(t, server.client(t, kube.clientCA, "hpa", "group-a"), externalChat+"s0-prometheus", nil); code != 200 {
		t.Fatalf("HTTP %d: %s", code, body)
	}
	r := keda.last()
	if r.Header.Get("X-Remote-User") != "hpa" || r.Header.Get("Authorization") != "" {
		t.Errorf("%v", r.Header)
	}
	// The code is returned to the caller, since it is the caller that has no right.
	if code, _ := server.get(t, server.client(t, kube.clientCA, "hpa"), externalChat+"forbidden", nil); code != 403 {
		t.Errorf("HTTP %d", code)
	}
}

// TestWithoutKEDA: without KEDA its metrics are an error that names it, ours are served, and a loop of two adapters
// ends at the second.
func TestWithoutKEDA(t *testing.T) {
	kube, keda := newFakeKube(t), newFakeKEDA(t)
	wrongToken, _ := forwarder(t, keda.target(t, "another-token"))
	server := startServer(t, kube, wrongToken)
	client := server.client(t, kube.clientCA, "hpa")
	if code, body := server.get(t, client, externalChat+"s0-prometheus", nil); code != 503 || !strings.Contains(body, "rejects the adapter's credentials") {
		t.Errorf("a wrong token: HTTP %d: %s", code, body)
	}
	if code, body := server.get(t, client, externalChat+"late", nil); code != 503 || !strings.Contains(body, "late may be the adapter's own: its series have not been listed yet") {
		t.Errorf("a metric that may be the adapter's: HTTP %d: %s", code, body)
	}
	keda.server.Close()
	host := keda.server.Listener.Addr().(*net.TCPAddr).String()
	code, body := server.get(t, client, externalChat+"s0-prometheus", nil)
	var status metav1.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil || code != 503 || status.Code != 503 || !strings.Contains(status.Message, host) {
		t.Errorf("KEDA down: HTTP %d: %s (%v)", code, body, err)
	}
	if code, body := server.get(t, client, externalChat+"queue_depth", nil); code != 200 {
		t.Errorf("our own with KEDA down: HTTP %d: %s", code, body)
	}
	if code, body := server.get(t, client, externalChat+"s0-prometheus", http.Header{forward.Hop: {"1"}}); code != 508 || !strings.Contains(body, "forward to each other") {
		t.Errorf("forwarded twice: HTTP %d: %s", code, body)
	}
}
