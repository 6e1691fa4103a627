package promfault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Answer is how the proxy answers. The zero value changes nothing.
type Answer string

// Ways of answering. All but Down, Broken, Slow and Login leave everything but
// instant queries alone: discovery goes on.
const (
	Honest      Answer = ""
	Down        Answer = "down"        // connections are refused
	Broken      Answer = "broken"      // 503
	Slow        Answer = "slow"        // no answer until the fault is over, and then none
	Truncated   Answer = "truncated"   // half of the answer's bytes
	Empty       Answer = "empty"       // a vector of no series
	Warned      Answer = "warned"      // with a warning, as Thanos gives for a lost store
	IsPartial   Answer = "is partial"  // with isPartial, as VictoriaMetrics does
	Stale       Answer = "stale"       // the answer of StaleAt, dated now
	ScalarZero  Answer = "scalar zero" // a scalar, not a vector
	Login       Answer = "login"       // 200 and an HTML page
	maxAnswer          = 64 << 20      // bytes that are buffered to be changed
	passTimeout        = 30 * time.Second
	queryPath          = "/api/v1/query"
)

// Proxy is an HTTP server in front of a Prometheus. It is safe for concurrent
// use.
type Proxy struct {
	target  *url.URL
	client  *http.Client
	address string

	mu      sync.Mutex
	answer  Answer
	staleAt time.Time
	lifted  chan struct{} // closed when the present answer is over
	server  *http.Server  // nil while Down
	port    net.Listener  // of server
}

// New starts a proxy in front of the Prometheus at target. Close it.
func New(target string) (*Proxy, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("putting a proxy before Prometheus: %w", err)
	}
	p := &Proxy{target: u, client: &http.Client{Timeout: passTimeout}, lifted: make(chan struct{})}
	l, err := listen()
	if err != nil {
		return nil, err
	}
	p.address = l.Addr().String()
	p.serve(l)
	return p, nil
}

// URL to ask instead of the real Prometheus. It stays the same.
func (p *Proxy) URL() string { return "http://" + p.address }

// StaleAt sets the time whose answers Stale gives.
func (p *Proxy) StaleAt(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.staleAt = t
}

// Answer changes how requests are answered from now on. Those under way with
// Slow end without an answer.
func (p *Proxy) Answer(a Answer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = a
	close(p.lifted)
	p.lifted = make(chan struct{})
	switch {
	case a == Down && p.server != nil:
		_ = p.port.Close() // the server may not know of it yet
		err := p.server.Close()
		p.server = nil
		if err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("closing the proxy's port: %w", err)
		}
	case a != Down && p.server == nil:
		l, err := net.Listen("tcp", p.address)
		if err != nil {
			return fmt.Errorf("opening the proxy's port again: %w", err)
		}
		p.serve(l)
	}
	return nil
}

// Close ends the proxy.
func (p *Proxy) Close() error { return p.Answer(Down) }

func (p *Proxy) serve(l net.Listener) {
	s := &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second}
	p.server, p.port = s, l
	go func() { _ = s.Serve(l) }() // ends with Close
}

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
	query := strings.TrimSuffix(r.URL.Path, "/") == queryPath
	if !query {
		answer = Honest
	}
	body, status, kind, err := p.ask(r.Context(), r, answer, staleAt)
	if err == nil && answer != Honest && answer != Truncated {
		body, err = spoil(answer, body, time.Now())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if answer == Truncated {
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}

// ask the real Prometheus.
func (p *Proxy) ask(ctx context.Context, r *http.Request, answer Answer, staleAt time.Time) (body []byte, status int, kind string, err error) {
	if err := r.ParseForm(); err != nil {
		return nil, 0, "", fmt.Errorf("reading the query: %w", err)
	}
	form := r.Form
	if answer == Stale {
		form.Set("time", strconv.FormatFloat(float64(staleAt.UnixMilli())/1000, 'f', 3, 64))
	}
	to := p.target.JoinPath(r.URL.Path)
	var content io.Reader
	if r.Method == http.MethodPost {
		content = strings.NewReader(form.Encode())
	} else {
		to.RawQuery = form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, to.String(), content)
	if err != nil {
		return nil, 0, "", fmt.Errorf("querying Prometheus: %w", err)
	}
	if content != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, 0, "", fmt.Errorf("querying Prometheus: %w", err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = errors.New("its answer is too large to be changed")
	}
	if err != nil {
		return nil, 0, "", fmt.Errorf("reading Prometheus' answer: %w", err)
	}
	return body, resp.StatusCode, resp.Header.Get("Content-Type"), nil
}

// listen below the range from which the kernel takes ports for outgoing
// connections: one that is closed for a while must be there to open again.
func listen() (net.Listener, error) {
	const lowest, highest = 20000, 32000
	var last error
	for range 200 {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+rand.IntN(highest-lowest))))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no free port between %d and %d on 127.0.0.1 for a proxy: %w", lowest, highest, last)
}
