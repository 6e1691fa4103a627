// Package promflags has the flags for the address of Prometheus and for its credentials. They are the same in
// every program that a user runs from a terminal.
package promflags

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/common/config"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/strict"
)

// Flags are the address of Prometheus and the credentials, from flags or from a file. The file has the form of
// a backend in the adapter's configuration.
type Flags struct {
	// Timeout of one query; 0 if neither the flag nor the program sets one.
	Timeout time.Duration

	config               prom.Config
	file                 string
	token                string
	basic                config.BasicAuth
	tls                  config.TLSConfig
	headers, headerFiles map[string]string
	amazon               prom.SigV4
}

// queryTimeout is the default timeout of one query. A piece of a long window may take long.
const queryTimeout = 2 * time.Minute

// Add adds the flags.
func (f *Flags) Add(fs *pflag.FlagSet) {
	c := &f.config
	fs.StringVar(&c.URL, "prometheus-url", "", "address of Prometheus, such as http://localhost:9090; $PROMETHEUS_URL if empty")
	fs.StringVar(&f.file, "prometheus-config", "", "YAML file with the fields of a backend of gpuscale-adapter (url, http, sigv4, parameters, …); flags override the file")
	fs.StringVar(&f.token, "bearer-token-file", "", "file that contains a bearer token")
	fs.StringVar(&f.basic.Username, "username", "", "user name; requires --password-file")
	fs.StringVar(&f.basic.PasswordFile, "password-file", "", "file that contains the password of --username")
	fs.StringToStringVar(&f.headers, "header", nil, "NAME=VALUE of a header to send with each query, such as X-Scope-OrgID=team")
	fs.StringToStringVar(&f.headerFiles, "header-file", nil, "NAME=FILE of a header whose value is in a file")
	fs.StringToStringVar(&c.Parameters, "parameter", nil, "NAME=VALUE of a parameter to send with each query, such as dedup=true")
	fs.StringVar(&f.tls.CAFile, "ca-file", "", "file with the CA certificates that may sign the server's certificate")
	fs.StringVar(&f.tls.CertFile, "cert-file", "", "file with the client certificate; requires --key-file")
	fs.StringVar(&f.tls.KeyFile, "key-file", "", "file with the key of the client certificate")
	fs.StringVar(&f.tls.ServerName, "server-name", "", "host name that the server's certificate must contain")
	fs.StringVar(&c.Method, "method", "", "HTTP method of queries: POST (the default), or GET for servers that refuse POST")
	fs.StringVar(&f.amazon.Region, "sigv4-region", "", "AWS region: sign queries for Amazon Managed Service for Prometheus")
	fs.StringVar(&f.amazon.Profile, "sigv4-profile", "", "profile in the AWS credentials file")
	fs.StringVar(&f.amazon.RoleARN, "sigv4-role-arn", "", "ARN of the AWS role to assume")
	fs.DurationVar(&f.Timeout, "timeout", 0, "timeout of one query")
	fs.Lookup("timeout").DefValue = queryTimeout.String() // the default if the file has none either
	for _, name := range []string{"header", "header-file", "parameter"} {
		fs.Lookup(name).DefValue = "" // otherwise help would show "(default [])"
	}
}

// Given reports whether an address, or a file that may contain one, was given.
func (f *Flags) Given() bool { return cmp.Or(f.config.URL, f.file, os.Getenv("PROMETHEUS_URL")) != "" }

// Client makes a client from the file and the flags.
func (f *Flags) Client(ctx context.Context) (*prom.Client, error) {
	var in struct { // a backend as in the adapter's configuration
		prom.Config
		Timeout metav1.Duration `json:"timeout"`
	}
	if f.file != "" {
		raw, err := os.ReadFile(f.file)
		if err != nil {
			return nil, fmt.Errorf("reading --prometheus-config: %w", err)
		}
		if err := strict.Read(f.file, raw, &in, func() error { return nil }); err != nil {
			return nil, err
		}
	}
	if (f.basic.Username == "") != (f.basic.PasswordFile == "") {
		return nil, command.Usage(errors.New("--username and --password-file: set both or neither"))
	}
	if f.amazon.Region == "" && (f.amazon.Profile != "" || f.amazon.RoleARN != "") {
		return nil, command.Usage(errors.New("--sigv4-profile and --sigv4-role-arn require --sigv4-region"))
	}
	c := in.Config
	f.over(&c)
	c.Timeout = cmp.Or(f.Timeout, in.Timeout.Duration, queryTimeout)
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
		return errors.New("--prometheus-url: the address must not contain a password: set --username and --password-file")
	}
	return nil
}

// over applies the flags over the file's fields.
func (f *Flags) over(c *prom.Config) {
	put := func(to *string, flag string) { *to = cmp.Or(flag, *to) }
	put(&c.URL, f.config.URL)
	put(&c.Method, f.config.Method)
	if c.Parameters == nil {
		c.Parameters = map[string]string{}
	}
	maps.Copy(c.Parameters, f.config.Parameters)
	if f.basic != (config.BasicAuth{}) {
		c.HTTP.BasicAuth = &f.basic
	}
	if f.token != "" {
		c.HTTP.BearerTokenFile(f.token)
	}
	tls := &c.HTTP.TLSConfig
	put(&tls.CAFile, f.tls.CAFile)
	put(&tls.CertFile, f.tls.CertFile)
	put(&tls.KeyFile, f.tls.KeyFile)
	put(&tls.ServerName, f.tls.ServerName)
	for name, value := range f.headers {
		c.HTTP.Header(name, config.Header{Values: []string{value}})
	}
	for name, file := range f.headerFiles {
		c.HTTP.Header(name, config.Header{Files: []string{file}})
	}
	if f.amazon.Region != "" {
		c.SigV4 = &f.amazon
	}
}
