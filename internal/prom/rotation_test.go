package prom_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// authority is a CA for one test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	key, raw := certificate(t, template, template, nil)
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key, block("CERTIFICATE", raw)}
}

// issue returns a certificate and its key in PEM.
func (a authority) issue(t *testing.T, name string) (cert, key string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	private, raw := certificate(t, template, a.cert, a.key)
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return block("CERTIFICATE", raw), block("EC PRIVATE KEY", der)
}

func certificate(t *testing.T, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return key, raw
}

func block(kind string, raw []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func pair(t *testing.T, cert, key string) *tls.Certificate {
	t.Helper()
	p, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

const empty = `{"status":"success","data":{"resultType":"vector","result":[]}}`

// secure is a server with the certificate of the moment. It says who came.
func secure(t *testing.T, cfg *tls.Config) (url string, shown *atomic.Pointer[tls.Certificate], came *atomic.Value) {
	t.Helper()
	shown, came = &atomic.Pointer[tls.Certificate]{}, &atomic.Value{}
	cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return shown.Load(), nil }
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if len(req.TLS.PeerCertificates) > 0 {
			came.Store(req.TLS.PeerCertificates[0].Subject.CommonName)
		}
		// A kept connection would hide that the certificate changed.
		w.Header().Set("Connection", "close")
		_, _ = w.Write([]byte(empty))
	}))
	server.TLS = cfg
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, shown, came
}

func TestACAIsRotatedWithoutARestart(t *testing.T) {
	old, renewed := newAuthority(t, "old"), newAuthority(t, "new")
	url, shown, _ := secure(t, &tls.Config{MinVersion: tls.VersionTLS12})
	oldCert, newCert := pairOf(t, old), pairOf(t, renewed)
	shown.Store(oldCert)
	ca := write(t, filepath.Join(t.TempDir(), "ca.crt"), old.pem)
	c := client(t, prom.Config{URL: url, CAFile: ca, ServerName: "prometheus"})
	ask := func() error {
		_, err := c.Query(t.Context(), "up", time.Time{})
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	shown.Store(newCert)
	if err := ask(); !errors.Is(err, prom.ErrUnavailable) || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a certificate of a CA not yet known: %v", err)
	}
	write(t, ca, renewed.pem)
	if err := ask(); err != nil {
		t.Errorf("the new CA: %v", err)
	}
	shown.Store(oldCert)
	if err := ask(); !errors.Is(err, prom.ErrUnavailable) {
		t.Errorf("the old server's certificate is still taken: %v", err)
	}
	write(t, ca, "not a certificate")
	if err := ask(); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("a broken CA file: %v", err)
	}
}

func pairOf(t *testing.T, a authority) *tls.Certificate {
	t.Helper()
	cert, key := a.issue(t, "prometheus")
	return pair(t, cert, key)
}

func TestAClientPairIsShownAndRotated(t *testing.T) {
	a := newAuthority(t, "ca")
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	url, shown, came := secure(t, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	shown.Store(pairOf(t, a))
	dir := t.TempDir()
	cfg := prom.Config{URL: url, CAFile: write(t, filepath.Join(dir, "ca.crt"), a.pem), ServerName: "prometheus"}
	if _, err := client(t, cfg).Query(t.Context(), "up", time.Time{}); !errors.Is(err, prom.ErrUnavailable) {
		t.Errorf("without a client certificate: %v", err)
	}
	cfg.CertFile, cfg.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	var c *prom.Client
	for _, name := range []string{"first", "second"} {
		cert, key := a.issue(t, name)
		write(t, cfg.CertFile, cert)
		write(t, cfg.KeyFile, key)
		if c == nil {
			c = client(t, cfg)
		}
		if _, err := c.Query(t.Context(), "up", time.Time{}); err != nil || came.Load() != name {
			t.Errorf("%v came, %v", came.Load(), err)
		}
	}
}

func TestPasswordsAndHeadersAreReadAgain(t *testing.T) {
	type seen struct{ user, password, tenant string }
	var got atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		got.Store(seen{user, password, req.Header.Get("X-Scope-OrgID")})
		_, _ = w.Write([]byte(empty))
	}))
	defer server.Close()
	dir := t.TempDir()
	password, tenant := filepath.Join(dir, "password"), filepath.Join(dir, "tenant")
	c := client(t, prom.Config{
		URL: server.URL, Username: "me", PasswordFile: password, HeaderFiles: map[string]string{"X-Scope-OrgID": tenant},
	})
	write(t, password, "first")
	if _, err := c.Query(t.Context(), "up", time.Time{}); !errors.Is(err, prom.ErrUnavailable) || !strings.Contains(err.Error(), "X-Scope-OrgID") {
		t.Errorf("without its header: %v", err)
	}
	for _, now := range []string{"first", "second"} {
		write(t, password, now)
		write(t, tenant, "team-"+now+"\n")
		if _, err := c.Query(t.Context(), "up", time.Time{}); err != nil || got.Load() != (seen{"me", now, "team-" + now}) {
			t.Errorf("%v, %v", got.Load(), err)
		}
	}
}
