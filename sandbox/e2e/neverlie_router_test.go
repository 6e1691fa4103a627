package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"net"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// router lets two adapters serve one API, each for its own namespaces. A cluster sends an API's requests to
// only one server, and only in this way do both adapters see a fault at the same moment. It also counts the
// controller's requests.
type router struct {
	port int
	to   map[adapter]http.Handler

	mu    sync.Mutex
	asked map[string]int // requests by namespace
	open  map[string]int // requests without an answer yet
}

func newRouter(t *testing.T, c *cluster.Cluster, ca []byte, addresses map[adapter]string) *router {
	t.Helper()
	// It authenticates to the adapters as the API server, since they accept user names from no other client.
	apiServer, err := tls.LoadX509KeyPair(filepath.Join(c.Dir(), "pki", "front-proxy.crt"), filepath.Join(c.Dir(), "pki", "front-proxy.key"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{apiServer}}}
	discarded := log.New(io.Discard, "", 0)
	r := &router{to: map[adapter]http.Handler{}, asked: map[string]int{}, open: map[string]int{}}
	for a, address := range addresses {
		p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: address})
		p.Transport, p.ErrorLog = transport, discarded
		r.to[a] = p
	}
	cert, key, _, err := c.ServingCert("router.never-lie.svc")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	callers, err := os.ReadFile(filepath.Join(c.Dir(), "pki", "front-proxy-ca.crt"))
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(callers)
	s := httptest.NewUnstartedServer(r)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert}
	s.Config.ErrorLog = discarded
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		transport.CloseIdleConnections()
	})
	at, ok := s.Listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("no TCP port")
	}
	r.port = at.Port
	return r
}

func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, rest, _ := strings.Cut(req.URL.Path, "/namespaces/")
	ns, _, _ := strings.Cut(rest, "/")
	r.count(ns, 1)
	defer r.count(ns, -1)
	to := ours // discovery goes to ours: both serve the same
	if strings.HasPrefix(ns, string(theirs)) {
		to = theirs
	}
	r.to[to].ServeHTTP(w, req)
}

func (r *router) count(ns string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[ns] += n; n < 0 {
		r.asked[ns]++
	}
}

// counts returns the number of answered requests by namespace.
func (r *router) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.asked)
}

// waiting reports whether a request for the namespace is under way.
func (r *router) waiting(ns string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[ns] > 0
}
