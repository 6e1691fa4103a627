package forward

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"time"
)

// Config is the part of the adapter's file.
type Config struct {
	// External receives requests for external metrics that no rule has.
	External *Target `json:"external,omitempty"`
}

// Target is another API server.
type Target struct {
	// Service is "name.namespace" or "name.namespace:port"; URL is for a server
	// outside the cluster. Exactly one of them is required.
	Service string `json:"service,omitempty"`
	URL     string `json:"url,omitempty"`
	// CAFile signed the server's certificate; the system's authorities if
	// empty. All files are read again when they change.
	CAFile string `json:"caFile,omitempty"`
	// ServerName is the name in the certificate; the URL's host if empty.
	ServerName string `json:"serverName,omitempty"`
	// Identity of the forwarded requests.
	Identity Identity `json:"identity,omitempty"`
	// TokenFile has the bearer token of identity "own"; the pod's own service
	// account token if empty.
	TokenFile string `json:"tokenFile,omitempty"`
	// CertFile and KeyFile are the client certificate: required for identity
	// "caller", an alternative to the token for "own".
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	// Timeout of one request; 5 s if zero.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Identity is the user that the other server sees.
type Identity string

// Identities.
const (
	// Own: the adapter, which needs the right to read external metrics. The
	// caller has already been authorized to read the same metric.
	Own Identity = "own"
	// Caller: the caller, named in front-proxy headers. The other server
	// accepts them only with a client certificate of its request-header CA.
	Caller Identity = "caller"
)

const (
	defaultTimeout = 5 * time.Second
	maxTimeout     = 30 * time.Second // well below the aggregator's own timeout
	ownToken       = "/var/run/secrets/kubernetes.io/serviceaccount/token"
)

var service = regexp.MustCompile(`^([a-z0-9](?:[-a-z0-9]*[a-z0-9])?\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)(:[0-9]{1,5})?$`)

// Validate returns all problems, each with its field path.
func (t Target) Validate() error {
	var errs []error
	when := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	_, err := t.base()
	one := (t.Service == "") != (t.URL == "")
	when(!one, "service: give either service or url")
	when(one && err != nil, "%w", err)
	caller := t.Identity == Caller
	when(!slices.Contains([]Identity{"", Own, Caller}, t.Identity), `identity: %q is not one of "own", "caller"`, string(t.Identity))
	when(!caller && t.TokenFile != "" && t.CertFile != "", "tokenFile: give either tokenFile or certFile")
	when(caller && t.CertFile == "", `certFile: identity "caller" needs a client certificate of the other server's request-header CA`)
	when(caller && t.TokenFile != "", `tokenFile: identity "caller" shows a certificate and no token`)
	when((t.CertFile == "") != (t.KeyFile == ""), "keyFile: certFile and keyFile go together")
	when(t.Timeout < 0 || t.Timeout > maxTimeout, "timeout: %s is not between 0 and %s", t.Timeout, maxTimeout)
	return errors.Join(errs...)
}

// base returns the server's URL.
func (t Target) base() (*url.URL, error) {
	if t.Service != "" {
		if !service.MatchString(t.Service) {
			return nil, fmt.Errorf(`service: %q is not "name.namespace" or "name.namespace:port"`, t.Service)
		}
		return &url.URL{Scheme: "https", Host: service.ReplaceAllString(t.Service, "$1.svc$2")}, nil
	}
	u, err := url.Parse(t.URL)
	switch {
	case err != nil: // its text repeats the URL, which may contain a password
		return nil, errors.New("url: cannot be parsed; write https://host:port")
	case u.Scheme != "https" || u.Host == "":
		return nil, errors.New("url: write https://host:port; credentials are not sent in the clear")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/":
		return nil, errors.New("url: host and port only")
	}
	return &url.URL{Scheme: "https", Host: u.Host}, nil
}
