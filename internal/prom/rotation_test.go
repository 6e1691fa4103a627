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

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

func write(t *testing.T, file, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

const empty = `{"status":"success","data":{"resultType":"vector","result":[]}}`

// secure is a server whose certificate can be exchanged.
func secure(t *testing.T) (url string, shown *atomic.Pointer[tls.Certificate]) {
	t.Helper()
	shown = &atomic.Pointer[tls.Certificate]{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// A kept connection would hide that the certificate changed.
		w.Header().Set("Connection", "close")
		_, _ = w.Write([]byte(empty))
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return shown.Load(), nil }}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, shown
}

func secured(url, ca string) prom.Config {
	c := prom.Config{URL: url}
	c.HTTP.TLSConfig.CAFile, c.HTTP.TLSConfig.ServerName = ca, "prometheus"
	return c
}

func TestACAIsRotatedWithoutARestart(t *testing.T) {
	old, renewed := promtest.NewAuthority(t, "old"), promtest.NewAuthority(t, "new")
	url, shown := secure(t)
	oldCert, newCert := old.Pair(t, "prometheus"), renewed.Pair(t, "prometheus")
	shown.Store(oldCert)
	ca := write(t, filepath.Join(t.TempDir(), "ca.crt"), string(old.PEM))
	c := client(t, secured(url, ca))
	ask := func() error {
		_, err := c.Query(t.Context(), "up", time.Time{})
		return err
	}
	require.NoError(t, ask())
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
