package prom

import (
	"net/http"
	"time"
)

// Limits used where Config leaves a field zero.
const (
	DefaultTimeout          = 10 * time.Second
	DefaultMaxResponseBytes = 256 << 20
	DefaultMaxSeries        = 500_000
)

// Config is a Prometheus-compatible server's address, the client's credentials
// and the limits of an answer. Files are reloaded when they change, so a rotated
// token or certificate needs no restart.
type Config struct {
	// URL is the base the API path is appended to, for example
	// http://prometheus.monitoring.svc:9090 or https://mimir/prometheus.
	URL string `json:"url"`

	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
	Username        string `json:"username,omitempty"`
	PasswordFile    string `json:"passwordFile,omitempty"`
	// SigV4 signs requests for Amazon Managed Service for Prometheus.
	SigV4 *SigV4 `json:"sigv4,omitempty"`
	// Headers are sent with each request, for example X-Scope-OrgID.
	Headers map[string]string `json:"headers,omitempty"`
	// HeaderFiles are files with the values of headers, by header name: for a
	// tenant or a key that is a secret.
	HeaderFiles map[string]string `json:"headerFiles,omitempty"`
	// Parameters are sent with the query, for example Thanos'
	// partial_response=false or VictoriaMetrics' nocache=1.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Method is POST if empty, or GET for servers that allow nothing else.
	Method string `json:"method,omitempty"`

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

// SigV4 configures signing. Credentials come from the same sources as in Amazon's
// own tools: the environment, a web identity, a shared credentials file, the
// instance. They are reloaded when they change or expire.
type SigV4 struct {
	Region string `json:"region"`
	// Service to sign for; "aps" if empty.
	Service string `json:"service,omitempty"`
	Profile string `json:"profile,omitempty"`
	// RoleARN is a role to assume, ExternalID the ID that it requires.
	RoleARN    string `json:"roleARN,omitempty"`
	ExternalID string `json:"externalID,omitempty"`
}

func (c Config) withDefaults() Config {
	if c.Method == "" {
		c.Method = http.MethodPost
	}
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
