package main

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// The pod's own credentials, as Kubernetes mounts them.
const (
	podToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	podCA    = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
)

// paFlags are prometheus-adapter's own flags, so that its Deployment works with
// only the image replaced. They configure the backend "default", like the
// configuration file.
type paFlags struct {
	url, caFile, certFile, keyFile, tokenFile, verb, authConfig string
	headers                                                     []string
	inCluster, disableHTTP2                                     bool
	relist, maxAge                                              time.Duration
}

// ignored are flags that have no effect here; docs/adapter.md says why.
var ignored = []struct{ name, short, value string }{
	{"v", "v", "0"}, {"vmodule", "", ""}, {"log-flush-frequency", "", "5s"}, {"logtostderr", "", "true"},
	{"alsologtostderr", "", "false"}, {"stderrthreshold", "", "2"}, {"log_dir", "", ""}, {"log_file", "", ""},
	{"log_file_max_size", "", "1800"}, {"skip_headers", "", "false"}, {"skip_log_headers", "", "false"},
	{"add_dir_header", "", "false"}, {"one_output", "", "false"}, {"log_backtrace_at", "", ""},
}

// addServer adds those about Prometheus.
func (p *paFlags) addServer(flags *pflag.FlagSet) {
	flags.StringVar(&p.url, "prometheus-url", "", "URL of Prometheus, as prometheus.url in the file")
	flags.StringVar(&p.caFile, "prometheus-ca-file", "", "as prometheus.http.tls_config.ca_file")
	flags.StringVar(&p.certFile, "prometheus-client-tls-cert-file", "", "as prometheus.http.tls_config.cert_file")
	flags.StringVar(&p.keyFile, "prometheus-client-tls-key-file", "", "as prometheus.http.tls_config.key_file")
	flags.StringVar(&p.tokenFile, "prometheus-token-file", "", "as prometheus.http.authorization.credentials_file")
	flags.StringArrayVar(&p.headers, "prometheus-header", nil, "name=value, as in prometheus.http.http_headers; may be repeated")
	flags.StringVar(&p.verb, "prometheus-verb", "", "GET or POST, as prometheus.method")
	flags.BoolVar(&p.inCluster, "prometheus-auth-incluster", false, "send the pod's own token to Prometheus")
}

func (p *paFlags) add(flags *pflag.FlagSet) {
	p.addServer(flags)
	flags.StringVar(&p.authConfig, "prometheus-auth-config", "", "not supported: use the token and certificate files")
	flags.DurationVar(&p.relist, "metrics-relist-interval", 0, "as prometheusAdapter.relistInterval")
	flags.DurationVar(&p.maxAge, "metrics-max-age", 0, "as prometheusAdapter.seriesAge")
	flags.BoolVar(&p.disableHTTP2, "disable-http2", false, "as --disable-http2-serving")
	for _, f := range ignored {
		flags.StringP(f.name, f.short, f.value, "prometheus-adapter's; no effect, see --log-level")
		flags.Lookup(f.name).NoOptDefVal = "true"
		flags.Lookup(f.name).Hidden = true
	}
}

// overlay returns a function that applies the flags over the file's
// configuration. Call it after parsing.
func (p *paFlags) overlay() (func(*config.Config), error) {
	if p.authConfig != "" {
		return nil, errors.New("--prometheus-auth-config is not supported: put the kubeconfig's token or certificates into files and name them in --prometheus-token-file, --prometheus-ca-file and --prometheus-client-tls-*-file")
	}
	headers := http.Header{}
	for _, h := range p.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, errors.New("--prometheus-header: one has no \"=\"; write name=value") // it may be a secret
		}
		headers.Add(name, value)
	}
	authorization := headers.Get("Authorization")
	headers.Del("Authorization")
	address := p.url
	if u, err := url.Parse(p.url); err == nil && u.User != nil { // Go's own client sends that, unless a header does
		password, _ := u.User.Password()
		authorization = cmp.Or(authorization, "Basic "+base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		u.User = nil
		address = u.String()
	}
	if authorization != "" {
		if err := new(prom.HTTP).Authorize(authorization); err != nil {
			return nil, fmt.Errorf("--prometheus-header: Authorization: %w", err)
		}
	}
	return func(c *config.Config) {
		to := &c.Prometheus
		tls := &to.HTTP.TLSConfig
		put := func(to *string, value string) { *to = cmp.Or(value, *to) }
		token := p.tokenFile
		if p.inCluster {
			token = cmp.Or(token, podToken)
			put(&tls.CAFile, podCA)
		}
		if token != "" {
			to.HTTP.BearerTokenFile(token)
		}
		put(&to.URL, address)
		put(&tls.CAFile, p.caFile)
		put(&tls.CertFile, p.certFile)
		put(&tls.KeyFile, p.keyFile)
		put(&to.Method, p.verb)
		for name, values := range headers {
			to.HTTP.Header(name, promconfig.Header{Values: values})
		}
		if authorization != "" {
			_ = to.HTTP.Authorize(authorization) // it was good a moment ago
		}
		c.PrometheusAdapter.RelistInterval = cmp.Or(p.relist, c.PrometheusAdapter.RelistInterval)
		c.PrometheusAdapter.SeriesAge = cmp.Or(p.maxAge, c.PrometheusAdapter.SeriesAge)
	}, nil
}
