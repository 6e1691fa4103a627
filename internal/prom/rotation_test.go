package prom_test

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/config"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
)

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
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

func secured(url, ca string) prom.Config {
	c := prom.Config{URL: url}
	c.HTTP.TLSConfig.CAFile, c.HTTP.TLSConfig.ServerName = ca, "prometheus"
	return c
}

func TestACAIsRotatedWithoutARestart(t *testing.T) {
	old, renewed := promtest.NewAuthority(t, "old"), promtest.NewAuthority(t, "new")
	url, shown, _ := secure(t, &tls.Config{MinVersion: tls.VersionTLS12})
	oldCert, newCert := old.Pair(t, "prometheus"), renewed.Pair(t, "prometheus")
	shown.Store(oldCert)
	ca := write(t, filepath.Join(t.TempDir(), "ca.crt"), string(old.PEM))
	c := client(t, secured(url, ca))
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
	write(t, ca, string(renewed.PEM))
	if err := ask(); err != nil {
		t.Errorf("the new CA: %v", err)
	}
	shown.Store(oldCert)
	if err := ask(); !errors.Is(err, prom.ErrUnavailable) {
		t.Errorf("the old server's certificate is still taken: %v", err)
	}
	if _, err := client(t, secured(url, "")).Query(t.Context(), "up", time.Time{}); !errors.Is(err, prom.ErrUnavailable) {
		t.Errorf("without our CA: %v", err)
	}
	if _, err := prom.New(secured(url, ca+".missing")); err == nil {
		t.Error("a missing CA file was not noticed")
	}
	write(t, ca, "not a certificate")
	if err := ask(); err == nil || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("a broken CA file: %v", err)
	}
}

func TestAClientPairIsShownAndRotated(t *testing.T) {
	a := promtest.NewAuthority(t, "ca")
	url, shown, came := secure(t, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool()})
	shown.Store(a.Pair(t, "prometheus"))
	dir := t.TempDir()
	cfg := secured(url, write(t, filepath.Join(dir, "ca.crt"), string(a.PEM)))
	if _, err := client(t, cfg).Query(t.Context(), "up", time.Time{}); !errors.Is(err, prom.ErrUnavailable) {
		t.Errorf("without a client certificate: %v", err)
	}
	tls := &cfg.HTTP.TLSConfig
	tls.CertFile, tls.KeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	var c *prom.Client
	for _, name := range []string{"first", "second"} {
		cert, key := a.Issue(t, name)
		write(t, tls.CertFile, string(cert))
		write(t, tls.KeyFile, string(key))
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
	cfg := prom.Config{URL: server.URL}
	cfg.HTTP.BasicAuth = &config.BasicAuth{Username: "me", PasswordFile: password}
	cfg.HTTP.Header("X-Scope-OrgID", config.Header{Files: []string{tenant}})
	c := client(t, cfg)
	write(t, password, "first")
	if _, err := c.Query(t.Context(), "up", time.Time{}); !errors.Is(err, prom.ErrUnavailable) || !strings.Contains(err.Error(), tenant) {
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
