package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/config"
	promodel "github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/strict"
	"github.com/gpuscale/gpuscale/report/query"
)

// source is the address of Prometheus and its credentials, from flags or from a file. The file has the form
// of a backend in the adapter's configuration.
type source struct {
	config               prom.Config
	file                 string
	token                string
	basic                config.BasicAuth
	tls                  config.TLSConfig
	headers, headerFiles map[string]string
	amazon               prom.SigV4
	match                string
	trusted              []string
}

// queryTimeout is the timeout of one query. A piece of a long window may take long.
const queryTimeout = 2 * time.Minute

func (s *source) add(fs *pflag.FlagSet) {
	c := &s.config
	fs.StringVar(&c.URL, "prometheus-url", "", "address of Prometheus, such as http://localhost:9090 (or $PROMETHEUS_URL)")
	fs.StringVar(&s.file, "prometheus-config", "", "YAML file with the fields of a backend of gpuscale-adapter: url, http, sigv4, parameters, …; flags override it")
	fs.StringVar(&s.match, "match", "", `matchers put into every selector, such as 'cluster="a"'`)
	fs.StringVar(&s.token, "bearer-token-file", "", "file with a bearer token")
	fs.StringVar(&s.basic.Username, "username", "", "user name, with --password-file")
	fs.StringVar(&s.basic.PasswordFile, "password-file", "", "file with the password")
	fs.StringToStringVar(&s.headers, "header", nil, "header sent with each query, NAME=VALUE, such as X-Scope-OrgID=team")
	fs.StringToStringVar(&s.headerFiles, "header-file", nil, "header whose value is in a file, NAME=FILE")
	fs.StringToStringVar(&c.Parameters, "parameter", nil, "parameter sent beside each query, NAME=VALUE, such as dedup=true")
	fs.StringVar(&s.tls.CAFile, "ca-file", "", "authorities that may sign the server's certificate")
	fs.StringVar(&s.tls.CertFile, "cert-file", "", "client certificate, with --key-file")
	fs.StringVar(&s.tls.KeyFile, "key-file", "", "key of the client certificate")
	fs.StringVar(&s.tls.ServerName, "server-name", "", "name the server's certificate must have")
	fs.StringVar(&c.Method, "method", "", "POST, or GET for servers that allow nothing else")
	fs.StringVar(&s.amazon.Region, "sigv4-region", "", "sign queries for Amazon Managed Service for Prometheus in this region")
	fs.StringVar(&s.amazon.Profile, "sigv4-profile", "", "profile of Amazon's shared credentials")
	fs.StringVar(&s.amazon.RoleARN, "sigv4-role-arn", "", "role to assume")
	fs.DurationVar(&c.Timeout, "timeout", 0, "time-out of one query")
	fs.Lookup("timeout").DefValue = queryTimeout.String() // the default if the file has none either
	for _, name := range []string{"header", "header-file", "parameter"} {
		fs.Lookup(name).DefValue = "" // otherwise help would show "(default [])"
	}
}

// addTrusted adds the flag for the trusted namespaces.
func (s *source) addTrusted(fs *pflag.FlagSet) {
	fs.StringSliceVar(&s.trusted, "exporter-namespaces", nil, "namespaces whose exporters and autoscaler are trusted; all if empty. Any pod that Prometheus scrapes can expose series of GPUs and costs")
}

// client makes a client from the file and the flags.
func (s *source) client(ctx context.Context) (*prom.Client, error) {
	if errs := trust.Validate("--exporter-namespaces", s.trusted); len(errs) > 0 {
		return nil, command.Usage(errors.Join(errs...))
	}
	var in struct { // a backend as in the adapter's configuration
		prom.Config
		Timeout metav1.Duration `json:"timeout"`
	}
	if s.file != "" {
		raw, err := os.ReadFile(s.file)
		if err != nil {
			return nil, fmt.Errorf("reading --prometheus-config: %w", err)
		}
		if err := strict.Read(s.file, raw, &in, func() error { return nil }); err != nil {
			return nil, err
		}
	}
	if (s.basic.Username == "") != (s.basic.PasswordFile == "") {
		return nil, command.Usage(errors.New("--username and --password-file: want both"))
	}
	if s.amazon.Region == "" && (s.amazon.Profile != "" || s.amazon.RoleARN != "") {
		return nil, command.Usage(errors.New("--sigv4-profile and --sigv4-role-arn: want --sigv4-region too"))
	}
	c := in.Config
	s.over(&c)
	c.Timeout = cmp.Or(s.config.Timeout, in.Timeout.Duration, queryTimeout)
	c.URL = cmp.Or(c.URL, os.Getenv("PROMETHEUS_URL"))
	if c.URL == "" {
		return nil, command.Usage(errors.New("--prometheus-url is required: the address of Prometheus, such as http://localhost:9090 behind kubectl port-forward"))
	}
	if err := addressed(c.URL); err != nil {
		return nil, command.Usage(err)
	}
	client, err := prom.New(c)
	if err != nil {
		return nil, command.Usage(err)
	}
	kube.AwaitForward(ctx, c.URL)
	return client, nil
}

// addressed rejects what is not a URL, with a message about the command line.
func addressed(text string) error {
	switch u, err := url.Parse(text); {
	case err != nil, u.Host == "": // the text is not shown: it may contain a password
		return errors.New("--prometheus-url: want an address such as http://localhost:9090")
	case u.User != nil:
		return errors.New("--prometheus-url: no password belongs into the address: give --username and --password-file")
	}
	return nil
}

// over applies the flags over the file's fields.
func (s *source) over(c *prom.Config) {
	put := func(to *string, flag string) { *to = cmp.Or(flag, *to) }
	put(&c.URL, s.config.URL)
	put(&c.Method, s.config.Method)
	if c.Parameters == nil {
		c.Parameters = map[string]string{}
	}
	maps.Copy(c.Parameters, s.config.Parameters)
	if s.basic != (config.BasicAuth{}) {
		c.HTTP.BasicAuth = &s.basic
	}
	if s.token != "" {
		c.HTTP.BearerTokenFile(s.token)
	}
	tls := &c.HTTP.TLSConfig
	put(&tls.CAFile, s.tls.CAFile)
	put(&tls.CertFile, s.tls.CertFile)
	put(&tls.KeyFile, s.tls.KeyFile)
	put(&tls.ServerName, s.tls.ServerName)
	for name, value := range s.headers {
		c.HTTP.Header(name, config.Header{Values: []string{value}})
	}
	for name, file := range s.headerFiles {
		c.HTTP.Header(name, config.Header{Files: []string{file}})
	}
	if s.amazon.Region != "" {
		c.SigV4 = &s.amazon
	}
}

// advices say what to do about errors of Prometheus, by the kind or text of the error. The first match is
// used.
var advices = []struct {
	is     error
	says   []string
	advice string
}{
	{is: query.ErrYoung, advice: "a shorter --since has shorter steps"},
	{is: query.ErrNoData, advice: noSeries},
	{says: []string{"HTTP 401", "HTTP 403"}, advice: "Prometheus refuses the credentials: give --bearer-token-file, --username with --password-file, --header X-Scope-OrgID=… or --sigv4-region"},
	{says: []string{"server gave HTTP response to HTTPS client", "does not look like a TLS handshake"}, advice: "it does not speak TLS: begin the address with http://"},
	{says: []string{"HTTP request to an HTTPS server", "HTTP request was sent to HTTPS port"}, advice: "it speaks TLS: begin the address with https://"},
	{says: []string{"certificate has expired or is not yet valid"}, advice: "renew its certificate, or correct the clock of this machine"},
	{says: []string{"x509: "}, advice: "its certificate is not trusted here: give --ca-file with the authority that signed it, or --server-name where it is for another name"},
	{says: []string{"it is a web page"}, advice: "a web page answers there, not Prometheus: is it the address of Grafana, or of a login page?"},
	{says: []string{"HTTP 405"}, advice: "it does not allow this method: try --method GET"},
	// The texts are VictoriaMetrics' and vmauth's, with the status 400.
	{says: []string{"HTTP 404", "unsupported path requested", "missing route for"}, advice: "there is no query API: is a path missing behind the address, such as /prometheus for Mimir or /select/0/prometheus for VictoriaMetrics?"},
	{is: prom.ErrPartial, advice: "series may be missing, so the result is not reliable: check which part of the storage does not answer, or select another with --match or --parameter"},
	{says: []string{badMatch}, advice: "--match wants matchers, such as --match 'cluster=\"a\"'"},
	{says: []string{"a redirect, which is not followed"}, advice: "a login page or a redirect is in front of it: give the address that answers directly, and credentials as flags"},
	{says: []string{"HTTP 429"}, advice: "it limits queries: try later, and a report with a lower --concurrency or a shorter --since"},
	{is: context.DeadlineExceeded, says: []string{"timed out", "timeout", "deadline exceeded"}, advice: "it takes too long to answer: give it a longer --timeout or --match for a part of it, and a report a shorter --since"},
	{says: []string{"unable to read"}}, // a credentials file; the error names it
	{is: prom.ErrUnavailable, advice: "is the address right, and reachable from here? In a cluster: kubectl -n monitoring port-forward svc/prometheus-operated 9090"},
}

// noSeries says which scrape jobs to check if there are no series.
var noSeries = fmt.Sprintf("there is no %s and no %s in the window: is gpuscale-exporter scraped (a ServiceMonitor or scrape job over its port 9400), and gpuscale-autoscaler? Look at up and at /targets of Prometheus",
	metric.GPUInfo.Name, metric.AutoscalerGPUSeconds.Name)

// badMatch appears only in errors about --match, since our own queries are valid.
const badMatch = "parse error"

// advise adds advice to an error of Prometheus.
func advise(err error) error {
	if err == nil {
		return nil
	}
	if several, ok := errors.AsType[*query.ClustersError](err); ok {
		return command.Usage(fmt.Errorf("%w: name it with --match 'cluster=%q'", err, several.Names[0]))
	}
	for _, a := range advices {
		says := func(s string) bool { return strings.Contains(err.Error(), s) }
		switch {
		case (a.is == nil || !errors.Is(err, a.is)) && !slices.ContainsFunc(a.says, says):
		case a.advice == "":
			return err
		case slices.Contains(a.says, badMatch):
			return command.Usage(fmt.Errorf("%w\n%s", err, a.advice))
		default:
			return fmt.Errorf("%w\n%s", err, a.advice)
		}
	}
	return err
}

// length parses a duration such as 30d, 2w, 12h or 10m.
func length(text string) (time.Duration, error) {
	d, err := promodel.ParseDuration(text)
	if err != nil || d == 0 {
		return 0, fmt.Errorf("%q: want a time such as 30d, 2w, 12h or 10m", text)
	}
	return time.Duration(d), nil
}

// complete registers shell completion for the values of a flag.
func complete(cmd *cobra.Command, flag string, words ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}
