package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

func TestFlagsOverruleOurCacheTimes(t *testing.T) {
	base := newBase(io.Discard)
	require.NoError(t, base.Flags().Parse(nil))
	if a := base.Authorization; a.AllowCacheTTL != allowFor || a.DenyCacheTTL != denyFor {
		t.Errorf("%s, %s without flags", a.AllowCacheTTL, a.DenyCacheTTL)
	}
	require.NoError(t, base.Flags().Parse([]string{"--authorization-webhook-cache-authorized-ttl=3s"}))
	if a := base.Authorization; a.AllowCacheTTL != 3*time.Second || a.DenyCacheTTL != denyFor {
		t.Errorf("%s, %s with a flag", a.AllowCacheTTL, a.DenyCacheTTL)
	}
}

const queueDepth = "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/queue_depth"

// TestWhoMayAsk runs the API server with TLS against a fake of Kubernetes' own: X-Remote-User counts only with the
// aggregator's certificate.
func TestWhoMayAsk(t *testing.T) {
	kube := newFakeKube(t, "hpa")
	server := startServer(t, kube, &answering{})
	frontProxy, stranger := kube.frontProxyCA, promtest.NewAuthority(t, "stranger")

	remote := func(name string) http.Header { return http.Header{"X-Remote-User": {name}} }
	cases := []struct {
		what   string
		client *http.Client
		header http.Header
		code   int
	}{
		{"the aggregator for a user who may", server.client(t, frontProxy, "front-proxy-client"), remote("hpa"), 200},
		{"the aggregator for a user who may not", server.client(t, frontProxy, "front-proxy-client"), remote("unknown"), 403},
		{"the aggregator without a user", server.client(t, frontProxy, "front-proxy-client"), nil, 401},
		{"a certificate of that CA with another name", server.client(t, frontProxy, "some-client"), remote("hpa"), 401},
		{"a certificate of another CA", server.client(t, stranger, "front-proxy-client"), remote("hpa"), 401},
		{"a client of the cluster that claims to be another", server.client(t, kube.clientCA, "unknown"), remote("hpa"), 403},
		{"a client of the cluster for itself", server.client(t, kube.clientCA, "hpa"), nil, 200},
		{"no certificate but a user header", server.client(t, nil, ""), remote("hpa"), 403},
		{"a group header of administrators", server.client(t, nil, ""), http.Header{"X-Remote-User": {"x"}, "X-Remote-Group": {"system:masters"}}, 403},
		{"a token", server.client(t, nil, ""), http.Header{"Authorization": {"Bearer token-of-hpa"}}, 200},
		{"a wrong token", server.client(t, nil, ""), http.Header{"Authorization": {"Bearer nonsense"}}, 401},
	}
	for _, c := range cases {
		code, body := server.get(t, c.client, queueDepth, c.header)
		if code != c.code {
			t.Errorf("%s: HTTP %d, want %d: %s", c.what, code, c.code, body)
		}
	}
}

// The aggregator's CA is replaced while the adapter runs, without a restart: certificates of the new one are accepted,
// those of the old one no longer.
func TestTheAggregatorsCARotates(t *testing.T) {
	kube := newFakeKube(t)
	server := startServer(t, kube, &answering{})
	ask := func(ca *promtest.Authority) int {
		code, _ := server.get(t, server.client(t, ca, "front-proxy-client"), queueDepth, http.Header{"X-Remote-User": {"hpa"}})
		return code
	}
	if before, after := ask(kube.frontProxyCA), ask(kube.nextProxyCA); before != http.StatusOK || after != http.StatusUnauthorized {
		t.Fatalf("before the rotation: HTTP %d for the old CA, %d for the new one", before, after)
	}
	close(kube.rotated)
	await.For(t, time.Minute, "the new CA is believed", func() error {
		if code := ask(kube.nextProxyCA); code != http.StatusOK {
			return fmt.Errorf("HTTP %d", code)
		}
		return nil
	})
	if code := ask(kube.frontProxyCA); code != http.StatusUnauthorized {
		t.Errorf("HTTP %d for the old CA", code)
	}
}

// TestOneReviewForManyRequests: the server caches access reviews. Custom metrics have the same value, time and window
// in v1beta1 and v1beta2.
func TestOneReviewForManyRequests(t *testing.T) {
	kube := newFakeKube(t)
	server := startServer(t, kube, &answering{})
	client := server.client(t, kube.clientCA, "hpa")
	for version, field := range map[string]string{
		"v1beta1": `"metricName":"queue_depth"`, "v1beta2": `"metric":{"name":"queue_depth"`,
	} {
		_, body := server.get(t, client, "/apis/custom.metrics.k8s.io/"+version+"/namespaces/chat/pods/a/queue_depth", nil)
		for _, want := range []string{field, `"value":"7"`, `"timestamp":"2026-01-02T03:04:05Z"`, `"window`, `:30`} {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %s: %s", version, want, body)
			}
		}
	}
	kube.reviews.Store(0)
	proxied := server.client(t, kube.frontProxyCA, "front-proxy-client")
	for i := range 21 {
		path, want := queueDepth, int32(1)
		if i == 20 {
			path, want = strings.Replace(queueDepth, "chat", "other", 1), 2
		}
		if code, body := server.get(t, proxied, path, http.Header{"X-Remote-User": {"hpa"}}); code != 200 {
			t.Fatalf("HTTP %d: %s", code, body)
		}
		if n := kube.reviews.Load(); n != want {
			t.Errorf("%d SubjectAccessReviews for %d requests", n, i+1)
		}
	}
}

// TestOpenAPI: the document of version 2 is empty and valid; that of version 3 has the APIs.
func TestOpenAPI(t *testing.T) {
	kube := newFakeKube(t)
	server := startServer(t, kube, &answering{})
	client := server.client(t, kube.clientCA, "system:aggregator")
	for path, want := range map[string]string{openAPI: emptyOpenAPI, "/openapi/v3": "apis/external.metrics.k8s.io/v1beta1"} {
		if code, body := server.get(t, client, path, nil); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: HTTP %d: %s", path, code, body)
		}
	}
}
