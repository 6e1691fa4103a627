package prom

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Validate returns all problems at once, each with its field's name. It reads
// no file.
func (c Config) Validate() error {
	var p problems
	c.checkURL(&p)
	c.checkCredentials(&p)
	c.checkHeaders(&p)
	for _, name := range slices.Sorted(maps.Keys(c.Parameters)) {
		switch name {
		case "", "query", "time", "timeout", "limit":
			p.add("parameters", "%q is set by the client", name)
		}
	}
	switch c.Method {
	case "", http.MethodPost, http.MethodGet:
	default:
		p.add("method", "%q is neither POST nor GET", c.Method)
	}
	if c.Timeout < 0 {
		p.add("timeout", "must not be negative")
	}
	if c.MaxResponseBytes < 0 {
		p.add("maxResponseBytes", "must not be negative")
	}
	if c.MaxSeries < 0 {
		p.add("maxSeries", "must not be negative")
	}
	return errors.Join(p...)
}

type problems []error

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
}

func (c Config) checkURL(p *problems) {
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		p.add("url", "is required")
	case err != nil: // the error repeats the URL, which may contain a password
		p.add("url", "cannot be read as a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		p.add("url", "scheme %q is neither http nor https", u.Scheme)
	case u.Host == "":
		p.add("url", "has no host")
	case u.User != nil:
		p.add("url", "must not hold credentials; use username and passwordFile")
	case u.RawQuery != "" || u.Fragment != "":
		p.add("url", "must end with its path; put query parameters into parameters")
	}
}

func (c Config) checkCredentials(p *problems) {
	if c.BearerTokenFile != "" && c.Username != "" {
		p.add("bearerTokenFile", "excludes username")
	}
	if (c.Username == "") != (c.PasswordFile == "") {
		p.add("passwordFile", "goes together with username")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		p.add("keyFile", "goes together with certFile")
	}
	if c.SigV4 == nil {
		return
	}
	if c.BearerTokenFile != "" || c.Username != "" {
		p.add("sigv4", "excludes bearerTokenFile and username")
	}
	if c.SigV4.Region == "" {
		p.add("sigv4.region", "is required")
	}
	if c.SigV4.ExternalID != "" && c.SigV4.RoleARN == "" {
		p.add("sigv4.externalID", "goes together with roleARN")
	}
}

// ours are the headers that the client sets itself. With a custom Accept-Encoding,
// net/http would not decompress the answer.
var ours = []string{"Authorization", "Host", "Content-Type", "Content-Length", "Accept-Encoding", "Transfer-Encoding", "Connection"}

func (c Config) checkHeaders(p *problems) {
	check := func(field, name string) {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case canonical == "Authorization":
			p.add(field, "Authorization comes from bearerTokenFile, username or sigv4")
		case slices.Contains(ours, canonical):
			p.add(field, "%s is set by the client", canonical)
		case name == "" || strings.ContainsFunc(name, notToken):
			p.add(field, "%q is no header name", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		check("headers", name)
		if strings.ContainsAny(c.Headers[name], "\r\n\x00") {
			p.add("headers", "the value of %s must be one line", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.HeaderFiles)) {
		check("headerFiles", name)
		if _, twice := c.Headers[name]; twice {
			p.add("headerFiles", "%s is among headers too", name)
		}
	}
}

// notToken reports characters that RFC 9110 does not allow in a header's name.
func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
}
