package prom

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Limits used where Config leaves a field zero.
const (
	DefaultTimeout          = 10 * time.Second
	DefaultMaxResponseBytes = 256 << 20
	DefaultMaxSeries        = 500_000
)

// Config says where a Prometheus-compatible server is, how to prove who we are
// and how much of an answer to accept. Files are read again when they change,
// so a rotated token or certificate needs no restart.
type Config struct {
	// URL is the base the API path is appended to, for example
	// http://prometheus.monitoring.svc:9090 or https://mimir/prometheus.
	URL string `json:"url"`

	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
	Username        string `json:"username,omitempty"`
	PasswordFile    string `json:"passwordFile,omitempty"`
	// Headers are sent with each request, for example X-Scope-OrgID.
	Headers map[string]string `json:"headers,omitempty"`

	CAFile     string `json:"caFile,omitempty"`
	CertFile   string `json:"certFile,omitempty"`
	KeyFile    string `json:"keyFile,omitempty"`
	ServerName string `json:"serverName,omitempty"`

	// Timeout bounds one query, body included.
	Timeout time.Duration `json:"-"`
	// MaxResponseBytes bounds the decompressed body.
	MaxResponseBytes int64 `json:"maxResponseBytes,omitempty"`
	MaxSeries        int   `json:"maxSeries,omitempty"`
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxResponseBytes == 0 {
		c.MaxResponseBytes = DefaultMaxResponseBytes
	}
	if c.MaxSeries == 0 {
		c.MaxSeries = DefaultMaxSeries
	}
	return c
}

// Validate returns all problems at once, each with its field's name. It reads
// no file.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		bad("url", "is required")
	case err != nil:
		bad("url", "%v", err)
	case u.Scheme != "http" && u.Scheme != "https":
		bad("url", "scheme %q is neither http nor https", u.Scheme)
	case u.Host == "":
		bad("url", "has no host")
	case u.User != nil:
		bad("url", "must not hold credentials; use username and passwordFile")
	}
	if c.BearerTokenFile != "" && c.Username != "" {
		bad("bearerTokenFile", "excludes username")
	}
	if (c.Username == "") != (c.PasswordFile == "") {
		bad("passwordFile", "goes together with username")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		bad("keyFile", "goes together with certFile")
	}
	for name := range c.Headers {
		if strings.EqualFold(name, "Authorization") {
			bad("headers", "Authorization comes from bearerTokenFile or username")
		}
	}
	if c.Timeout < 0 {
		bad("timeout", "must not be negative")
	}
	if c.MaxResponseBytes < 0 {
		bad("maxResponseBytes", "must not be negative")
	}
	if c.MaxSeries < 0 {
		bad("maxSeries", "must not be negative")
	}
	return errors.Join(errs...)
}
