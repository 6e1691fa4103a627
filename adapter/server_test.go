package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	"k8s.io/metrics/pkg/apis/external_metrics"
	adapterbase "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestMain silences the API server library's log. The process has one logger, so no test may set it while another runs.
func TestMain(m *testing.M) {
	kube.UseLogger(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// fakeKube is the part of the Kubernetes API server that delegated authentication and authorization need.
// The ConfigMap has the keys that
// kube-apiserver 1.37.1 writes (clusterauthenticationtrust, 2026-11-29), except
// requestheader-uid-headers. sandbox/chart and sandbox/e2e test with the real one.
type fakeKube struct {
	url                    string
	frontProxyCA, clientCA *promtest.Authority
	nextProxyCA            *promtest.Authority // in place of frontProxyCA once rotated is closed
	rotated                chan struct{}
	allowed                []string // users with rights; nil: all
	reviews                atomic.Int32
	ready                  atomic.Bool // before that, only administrators have rights
}

func newFakeKube(t testing.TB, allowed ...string) *fakeKube {
	k := &fakeKube{
		frontProxyCA: promtest.NewAuthority(t, "front-proxy-ca"), clientCA: promtest.NewAuthority(t, "client-ca"),
		nextProxyCA: promtest.NewAuthority(t, "next-front-proxy-ca"), rotated: make(chan struct{}), allowed: allowed,
	}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	k.url = server.URL
	return k
}

func (k *fakeKube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/api":
		reply(w, map[string]any{"kind": "APIVersions", "versions": []string{}})
	case r.URL.Path == "/apis":
		reply(w, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []string{}})
	case r.URL.Path == "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		k.reviews.Add(1)
		var review authorizationv1.SubjectAccessReview
		if !decode(w, r, &review) {
			return
		}
		review.Status.Allowed = k.ready.Load() && (len(k.allowed) == 0 || slices.Contains(k.allowed, review.Spec.User))
		reply(w, review)
	case r.URL.Path == "/apis/authentication.k8s.io/v1/tokenreviews":
		var review authenticationv1.TokenReview
		if !decode(w, r, &review) {
			return
		}
		name, ok := strings.CutPrefix(review.Spec.Token, "token-of-")
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: name}}
		reply(w, review)
	case strings.HasSuffix(r.URL.Path, "/configmaps") && r.URL.Query().Get("watch") == "":
		reply(w, map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{k.configMap()}})
	case strings.Contains(r.URL.Path, "configmaps") && r.URL.Query().Get("watch") == "":
		reply(w, k.configMap())
	case strings.Contains(r.URL.Path, "configmaps") && r.URL.Query().Get("sendInitialEvents") == "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-k.rotated:
			reply(w, map[string]any{"type": "MODIFIED", "object": k.configMap()})
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case <-r.Context().Done():
		}
	default: // watches that begin with a list are tried first: not here
		w.WriteHeader(http.StatusUnprocessableEntity)
		reply(w, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "not in this fake",
		})
	}
}

func (k *fakeKube) configMap() map[string]any {
	version, frontProxyCA := "1", k.frontProxyCA
	select {
	case <-k.rotated:
		version, frontProxyCA = "2", k.nextProxyCA
	default:
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "extension-apiserver-authentication", "namespace": "kube-system", "resourceVersion": version},
		"data": map[string]string{
			"client-ca-file":                     string(k.clientCA.PEM),
			"requestheader-client-ca-file":       string(frontProxyCA.PEM),
			"requestheader-allowed-names":        `["front-proxy-client"]`,
			"requestheader-username-headers":     `["X-Remote-User"]`,
			"requestheader-group-headers":        `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
		},
	}
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(r.Body).Decode(into)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func reply(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what)
}

// answering has queue_depth, which is 7 for every object.
type answering struct{}

var theTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (answering) GetMetricByName(_ context.Context, name types.NamespacedName, info cma.CustomMetricInfo, _ labels.Selector) (*custom_metrics.MetricValue, error) {
	window := int64(30)
	return &custom_metrics.MetricValue{
		DescribedObject: custom_metrics.ObjectReference{Kind: "Pod", APIVersion: "v1", Name: name.Name, Namespace: name.Namespace},
		Metric:          custom_metrics.MetricIdentifier{Name: info.Metric}, Value: *resource.NewQuantity(7, resource.DecimalSI),
		Timestamp: metav1.NewTime(theTime), WindowSeconds: &window,
	}, nil
}

func (answering) GetMetricBySelector(context.Context, string, labels.Selector, cma.CustomMetricInfo, labels.Selector) (*custom_metrics.MetricValueList, error) {
	return &custom_metrics.MetricValueList{}, nil
}

func (answering) ListAllMetrics() []cma.CustomMetricInfo { return nil }

func (answering) GetExternalMetric(_ context.Context, _ string, _ labels.Selector, info cma.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	return &external_metrics.ExternalMetricValueList{Items: []external_metrics.ExternalMetricValue{{
		MetricName: info.Metric, Value: *resource.NewQuantity(7, resource.DecimalSI), Timestamp: metav1.NewTime(theTime),
	}}}, nil
}

func (answering) ListAllExternalMetrics() []cma.ExternalMetricInfo {
	return []cma.ExternalMetricInfo{{Metric: "queue_depth"}}
}

// kubeconfigOf names a cluster without credentials.
func kubeconfigOf(t testing.TB, url string) string {
	t.Helper()
	return writeFile(t, "kubeconfig", fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", url))
}

// listening is main's server, with flags for a cluster and a port of its own.
func listening(t testing.TB, clusterURL string) (base *adapterbase.AdapterBase, address string) {
	t.Helper()
	base = newBase(io.Discard)
	require.NoError(t, base.Flags().Parse([]string{"--cert-dir=" + t.TempDir(), "--lister-kubeconfig=" + kubeconfigOf(t, clusterURL)}))
	require.NoError(t, outsidePods(base))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	base.SecureServing.Listener = listener
	return base, listener.Addr().String()
}

// testServer is the API server as main builds it, around another provider.
type testServer struct {
	address string
	ended   <-chan struct{} // when it has; nil where it ends with the test only
}

func startServer(t testing.TB, cluster *fakeKube, p cma.MetricsProvider) *testServer {
	t.Helper()
	base, address := listening(t, cluster.url)
	base.WithCustomMetrics(p)
	base.WithExternalMetrics(p)
	config, err := base.Config()
	require.NoError(t, err)
	adjust(config)
	done := make(chan error, 1)
	go func() { done <- base.Run(t.Context()) }() // which ends before the cleanup
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	s := &testServer{address: address}
	s.waitReady(t, cluster)
	cluster.reviews.Store(0)
	cluster.ready.Store(true)
	return s
}

// waitReady waits until the server accepts certificates of both authorities: it reads them from the API server a moment
// after it begins to listen.
func (s *testServer) waitReady(t testing.TB, cluster *fakeKube) {
	t.Helper()
	await.For(t, time.Minute, "the server gets ready", func() error {
		direct := s.client(t, cluster.clientCA, "admin", "system:masters")
		proxied := s.client(t, cluster.frontProxyCA, "front-proxy-client")
		// Only an administrator may learn which paths do not exist.
		code, _, err := s.fetch(t.Context(), direct, "/nothing", nil)
		if code == http.StatusNotFound {
			code, _, err = s.fetch(t.Context(), proxied, "/nothing", http.Header{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}})
		}
		if code != http.StatusNotFound {
			return errors.Join(fmt.Errorf("HTTP %d", code), err)
		}
		return nil
	})
}

// client shows a certificate of the named CA, or none. It does not verify the server's own certificate, which the
// library makes up.
func (s *testServer) client(t testing.TB, ca *promtest.Authority, name string, groups ...string) *http.Client {
	t.Helper()
	c := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // see above
	if ca != nil {
		pair := ca.Pair(t, name, groups...)
		// The certificate is shown also to a server that does not request this CA, as by an attacker.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	transport := &http.Transport{TLSClientConfig: c}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func (s *testServer) get(t testing.TB, client *http.Client, path string, header http.Header) (code int, body string) {
	t.Helper()
	code, body, err := s.fetch(t.Context(), client, path, header)
	require.NoError(t, err)
	return code, body
}

func (s *testServer) fetch(ctx context.Context, client *http.Client, path string, header http.Header) (code int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	maps.Copy(req.Header, header.Clone())
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}
