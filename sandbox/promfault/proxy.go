package promfault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// Answer is the way in which the proxy answers. The zero value changes nothing.
type Answer string

// Ways of answering. Down, Broken, Slow and Login affect all requests. The others change only instant
// queries, so discovery goes on.
const (
	Honest     Answer = ""
	Down       Answer = "down"        // connections are refused
	Broken     Answer = "broken"      // 503
	Slow       Answer = "slow"        // no answer while the fault lasts, then the connection ends
	Truncated  Answer = "truncated"   // half of the answer's bytes
	Empty      Answer = "empty"       // a vector of no series
	Warned     Answer = "warned"      // with a warning, as Thanos gives for a lost store
	IsPartial  Answer = "is partial"  // with isPartial, as VictoriaMetrics does
	Stale      Answer = "stale"       // the answer of StaleAt, dated now
	ScalarZero Answer = "scalar zero" // a scalar, not a vector
	Login      Answer = "login"       // 200 and an HTML page
	queryPath         = "/api/v1/query"
)

// Proxy is an HTTP server in front of a Prometheus. It is safe for concurrent
// use.
type Proxy struct {
	target  *url.URL
	address string

	mu      sync.Mutex
	answer  Answer
	staleAt time.Time
	lifted  chan struct{} // closed when the current answer mode ends
	server  *http.Server  // nil while Down
	port    net.Listener  // of server
}

// New starts a proxy in front of the Prometheus at target. Close it.
func New(target string) (*Proxy, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("putting a proxy before Prometheus: %w", err)
	}
	port, err := proc.ReservePort()
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: u, address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), lifted: make(chan struct{})}
	return p, p.Answer(Honest)
}

// URL is the URL to use in place of the real Prometheus. It never changes.
func (p *Proxy) URL() string { return "http://" + p.address }

// StaleAt sets the time of the data that Stale returns.
func (p *Proxy) StaleAt(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.staleAt = t
}

// Answer sets how requests are answered from now on. Requests that are waiting because of Slow end without an
// answer.
func (p *Proxy) Answer(a Answer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = a
	close(p.lifted)
	p.lifted = make(chan struct{})
	switch {
	case a == Down && p.server != nil:
		_ = p.port.Close() // the server may not have taken the listener yet
		err := p.server.Close()
		p.server = nil
		if err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("closing the proxy's port: %w", err)
		}
	case a != Down && p.server == nil:
		l, err := net.Listen("tcp", p.address)
		if err != nil {
			return fmt.Errorf("opening the proxy's port: %w", err)
		}
		s := &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}
		p.server, p.port = s, l
		go func() { _ = s.Serve(l) }() // ends with Close
	}
	return nil
}

// Close ends the proxy.
func (p *Proxy) Close() error { return p.Answer(Down) }

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	answer, staleAt, lifted := p.answer, p.staleAt, p.lifted
	p.mu.Unlock()
	switch answer {
	case Down: // accepted just before the port was closed
		panic(http.ErrAbortHandler)
	case Broken:
		http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
		return
	case Slow:
		select {
		case <-lifted:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case Login:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>Sign in</title><form method=post><input name=user></form>")
		return
	}
	if strings.TrimSuffix(r.URL.Path, "/") != queryPath {
		answer = Honest
	}
	if answer == Stale {
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Form.Set("time", strconv.FormatFloat(float64(staleAt.UnixMilli())/1000, 'f', 3, 64))
		r.Method, r.Body, r.ContentLength, r.URL.RawQuery = http.MethodGet, http.NoBody, 0, r.Form.Encode()
	}
	forward := httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(p.target)
			r.Out.Header.Del("Accept-Encoding") // the answer is read here
		},
		ModifyResponse: func(resp *http.Response) error { return change(answer, resp) },
	}
	forward.ServeHTTP(w, r)
}

// change applies a fault to an answer of the real Prometheus.
func change(answer Answer, resp *http.Response) error {
	if answer == Honest {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("reading Prometheus' answer: %w", err)
	}
	length := len(body)
	if answer == Truncated {
		body = body[:length/2] // the server closes the connection, since it has promised more
	} else if body, err = spoil(answer, body, time.Now()); err != nil {
		return err
	} else {
		length = len(body)
	}
	resp.Header.Set("Content-Length", strconv.Itoa(length))
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}
