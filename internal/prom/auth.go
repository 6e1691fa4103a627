package prom

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// authorize reads the credential files for each request: they are small and the
// requests few, and a rotated secret must take effect without a restart.
func (c Config) authorize(req *http.Request) error {
	for name, value := range c.Headers {
		req.Header.Set(name, value)
	}
	for name, file := range c.HeaderFiles {
		value, err := readSecret(file)
		if err != nil {
			return fmt.Errorf("reading header %s: %w", name, err)
		}
		req.Header.Set(name, value)
	}
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
