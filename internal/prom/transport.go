package prom

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// transport makes a new HTTP client when a file has changed that a client cannot
// reload: roots, key pair, Amazon's credentials. It checks for each request: the
// files are small and the requests few.
type transport struct {
	cfg Config

	mu     sync.Mutex
	client *http.Client
	read   string // contents the client was made from
}

func (t *transport) current() (*http.Client, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	files, err := t.cfg.readTLS()
	if err != nil {
		return nil, err
	}
	contents := strings.Join(files[:], "\x00") + "\x00" + t.cfg.SigV4.shared()
	if t.client != nil && contents == t.read {
		return t.client, nil
	}
	client, err := t.cfg.client(files)
	if err != nil {
		return nil, err
	}
	if t.client != nil {
		t.client.CloseIdleConnections()
	}
	t.client, t.read = client, contents
	return client, nil
}

func (c Config) client(files [3]string) (*http.Client, error) {
	tlsConfig, err := c.tls(files)
	if err != nil {
		return nil, err
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig = tlsConfig
	base.MaxIdleConnsPerHost = 8
	signed, err := c.SigV4.sign(base, c.Timeout)
	if err != nil {
		return nil, fmt.Errorf("sigv4: %w", err)
	}
	return &http.Client{
		Transport: closing{signed, base},
		// A redirected POST becomes a GET without its query, and a proxy's login
		// page is no answer.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("refusing to follow a redirect")
		},
	}, nil
}

// closing is a wrapped transport that can still close idle connections.
type closing struct {
	http.RoundTripper
	base *http.Transport
}

// CloseIdleConnections is called by http.Client.
func (c closing) CloseIdleConnections() { c.base.CloseIdleConnections() }
