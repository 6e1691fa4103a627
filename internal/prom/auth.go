package prom

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// authorize reads the credential files for each request: they are small, the
// requests few, and a rotated secret must not need a restart.
func (c Config) authorize(req *http.Request) error {
	switch {
	case c.BearerTokenFile != "":
		token, err := readSecret(c.BearerTokenFile)
		if err != nil {
			return fmt.Errorf("reading bearer token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	case c.Username != "":
		password, err := readSecret(c.PasswordFile)
		if err != nil {
			return fmt.Errorf("reading password: %w", err)
		}
		req.SetBasicAuth(c.Username, password)
	}
	return nil
}

func readSecret(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(raw))
	if secret == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return secret, nil
}

// tlsRecheck is how often the TLS files are looked at for a change.
const tlsRecheck = 10 * time.Second

// transport hands out an HTTP client and makes a new one when a TLS file has
// changed, because a tls.Config's roots cannot be swapped in place.
type transport struct {
	cfg Config

	mu      sync.Mutex
	client  *http.Client
	read    string // contents the client was made from
	checked time.Time
}

func (t *transport) current() (*http.Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.client != nil && now.Sub(t.checked) < tlsRecheck {
		return t.client, nil
	}
	files, err := t.cfg.readTLS()
	if err != nil {
		return nil, err
	}
	t.checked = now
	contents := strings.Join(files[:], "\x00")
	if t.client != nil && contents == t.read {
		return t.client, nil
	}
	tlsConfig, err := t.cfg.tls(files)
	if err != nil {
		return nil, err
	}
	if t.client != nil {
		t.client.CloseIdleConnections()
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig = tlsConfig
	base.MaxIdleConnsPerHost = 8
	t.read = contents
	t.client = &http.Client{
		Transport: base,
		// A redirected POST arrives as a GET without its query, and a proxy's
		// login page is no answer.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("refusing to follow a redirect")
		},
	}
	return t.client, nil
}

// readTLS returns the contents of the CA, certificate and key file; "" where
// none is configured.
func (c Config) readTLS() (contents [3]string, err error) {
	for i, file := range []string{c.CAFile, c.CertFile, c.KeyFile} {
		if file == "" {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return contents, fmt.Errorf("reading TLS files: %w", err)
		}
		contents[i] = string(raw)
	}
	return contents, nil
}

func (c Config) tls(files [3]string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if files[0] != "" {
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM([]byte(files[0])) {
			return nil, fmt.Errorf("caFile: %s holds no certificate", c.CAFile)
		}
	}
	if files[1] != "" {
		pair, err := tls.X509KeyPair([]byte(files[1]), []byte(files[2]))
		if err != nil {
			return nil, fmt.Errorf("certFile and keyFile: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
