package prom

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	"github.com/prometheus/sigv4"
	"go.yaml.in/yaml/v3"
)

// Limits used where Config leaves a field zero.
const (
	DefaultTimeout          = 10 * time.Second
	DefaultMaxResponseBytes = 256 << 20
	DefaultMaxSeries        = 500_000
)

// Config is a Prometheus-compatible server's address, the client's credentials
// and the limits of an answer.
type Config struct {
	// URL is the base the API path is appended to, for example
	// http://prometheus.monitoring.svc:9090 or https://mimir/prometheus.
	URL string `json:"url" yaml:"url"`
	// HTTP has the fields of http_config in Prometheus' own configuration:
	// authorization, basic_auth, oauth2, tls_config, http_headers, proxy_url.
	// Its files are reloaded when they change. Redirects are never followed.
	HTTP HTTP `json:"http,omitempty" yaml:"http,omitempty"`
	// SigV4 has the fields of sigv4 in Prometheus' own configuration: it signs
	// requests for Amazon Managed Service for Prometheus.
	SigV4 *SigV4 `json:"sigv4,omitempty" yaml:"sigv4,omitempty"`
	// Parameters are sent with the query, for example Thanos' dedup=true or VictoriaMetrics'
	// nocache=1. A parameter with an empty value is not sent; this also removes the client's own
	// limit, timeout, latency_offset or partial_response, since some servers refuse unknown
	// parameters.
	Parameters map[string]string `json:"parameters,omitempty" yaml:"parameters,omitempty"`
	// Method is POST if empty, or GET for servers that allow nothing else.
	Method string `json:"method,omitempty" yaml:"method,omitempty"`

	// Timeout bounds one query, body included; 10 s if zero.
	Timeout time.Duration `json:"timeout,omitempty" yaml:"timeout,omitempty"`
	// MaxResponseBytes bounds the body.
	MaxResponseBytes int64 `json:"maxResponseBytes,omitempty" yaml:"maxResponseBytes,omitempty"`
	MaxSeries        int   `json:"maxSeries,omitempty" yaml:"maxSeries,omitempty"`
}

// HTTP is Prometheus' http_config.
type HTTP struct {
	config.HTTPClientConfig `yaml:",inline"`
}

// UnmarshalJSON refuses unknown fields, which the library's own does not.
func (h *HTTP) UnmarshalJSON(text []byte) error {
	c, err := config.LoadHTTPConfig(string(text))
	if err == nil {
		h.HTTPClientConfig = *c
	}
	return err
}

// SigV4 is Prometheus' sigv4.
type SigV4 struct {
	sigv4.SigV4Config `yaml:",inline"`
}

// UnmarshalJSON reads the JSON as YAML, since the fields have no JSON names.
func (s *SigV4) UnmarshalJSON(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	return d.Decode(s)
}

// BearerTokenFile sends the token in a file with each query.
func (h *HTTP) BearerTokenFile(file string) {
	h.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: file}
}

// Authorize sends a value of the header Authorization with each query. [HTTP.Header] cannot set that
// header.
func (h *HTTP) Authorize(value string) error {
	kind, credentials, _ := strings.Cut(value, " ")
	given := config.HTTPClientConfig{Authorization: &config.Authorization{Type: kind, Credentials: config.Secret(credentials)}}
	if strings.EqualFold(kind, "Basic") {
		user, password, ok := (&http.Request{Header: http.Header{"Authorization": {value}}}).BasicAuth()
		if !ok {
			return errors.New("what follows Basic is not a name and password in base64")
		}
		given = config.HTTPClientConfig{BasicAuth: &config.BasicAuth{Username: user, Password: config.Secret(password)}}
	}
	h.Authorization, h.BasicAuth, h.OAuth2 = given.Authorization, given.BasicAuth, nil
	return nil
}

// Header sends a header with each query.
func (h *HTTP) Header(name string, value config.Header) {
	if h.HTTPHeaders == nil {
		h.HTTPHeaders = &config.Headers{Headers: map[string]config.Header{}}
	}
	h.HTTPHeaders.Headers[name] = value
}

func (c Config) withDefaults() Config {
	c.Method = cmp.Or(c.Method, http.MethodPost)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxResponseBytes = cmp.Or(c.MaxResponseBytes, DefaultMaxResponseBytes)
	c.MaxSeries = cmp.Or(c.MaxSeries, DefaultMaxSeries)
	return c
}

// client makes the HTTP client, and with it the first credentials for SigV4.
func (c Config) client() (*http.Client, error) {
	h := c.HTTP.HTTPClientConfig
	h.FollowRedirects = false // a redirected POST becomes a GET without its query
	h.ProxyFromEnvironment = h.ProxyFromEnvironment || h.ProxyURL.URL == nil && h.NoProxy == ""
	client, err := config.NewClientFromConfig(h, "prometheus")
	if err != nil || c.SigV4 == nil {
		return client, err
	}
	if client.Transport, err = sigv4.NewSigV4RoundTripper(&c.SigV4.SigV4Config, client.Transport); err != nil {
		return nil, fmt.Errorf("sigv4: %w", err)
	}
	return client, nil
}

// Validate returns all problems at once, each with its field's name. It reads
// no file.
func (c Config) Validate() error {
	var problems []error
	when := func(wrong bool, field, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
		}
	}
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		when(true, "url", "is required")
	case err != nil: // the error repeats the URL, which may contain a password
		when(true, "url", "cannot be read as a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		when(true, "url", "scheme %q is neither http nor https", u.Scheme)
	case u.Host == "":
		when(true, "url", "has no host")
	default:
		when(u.User != nil, "url", "must not hold credentials; use http.basic_auth")
		when(u.RawQuery != "" || u.Fragment != "", "url", "must end with its path; put query parameters into parameters")
	}
	err = c.HTTP.Validate()
	when(err != nil, "http", "%v", err)
	if c.SigV4 != nil {
		err = c.SigV4.Validate()
		when(err != nil, "sigv4", "%v", err)
		when(c.HTTP.Authorization != nil || c.HTTP.BasicAuth != nil || c.HTTP.OAuth2 != nil, "sigv4", "excludes authorization, basic_auth and oauth2")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Parameters)) {
		left := c.Parameters[name] == "" && slices.Contains([]string{"limit", "timeout"}, name)
		when(name == "" || Reserved(name) && !left, "parameters", "%q is set by the client", name)
	}
	when(!slices.Contains([]string{"", http.MethodPost, http.MethodGet}, c.Method), "method", "%q is neither POST nor GET", c.Method)
	when(c.Timeout < 0, "timeout", "must not be negative")
	when(c.MaxResponseBytes < 0, "maxResponseBytes", "must not be negative")
	when(c.MaxSeries < 0, "maxSeries", "must not be negative")
	return errors.Join(problems...)
}

// Reserved reports a parameter that the client sets itself.
func Reserved(parameter string) bool {
	return slices.Contains([]string{"query", "time", "timeout", "limit", "start", "end", "step", "match[]"}, parameter)
}
