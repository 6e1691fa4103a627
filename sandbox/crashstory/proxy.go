package crashstory

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// Note is one numbered call that came through a proxy.
type Note struct {
	Call
	// Nth of its kind in this run, from 1.
	Nth int
	// Status the API server gave; 0 where it was not asked or had none.
	Status int
}

// ID identifies a call of a run: "create nodes mig-1 #1".
func (n Note) ID() string { return fmt.Sprintf("%s #%d", n.Call, n.Nth) }

// Fault is what happens to a call.
type Fault string

// Faults.
const (
	None       Fault = ""
	KillBefore Fault = "before" // killed before the API server gets it
	KillAfter  Fault = "after"  // killed after it was done, before the answer
	Lost       Fault = "lost"   // done, and the connection is closed before the answer
	Error500   Fault = "500"    // done, and answered with 500
	Error409   Fault = "409"    // not done, answered with 409
	Error429   Fault = "429"    // not done, answered with 429
	PauseAfter Fault = "paused" // done, and the replica is stopped before the answer
)

// Faults returns the fault of a call; fired is the number of faults so far.
type Faults func(n Note, fired int) Fault

// at is one fault of one call. Should the call be refused by the API server, its
// next attempt meets a fault that needs it done.
func at(target Note, what Fault) Faults {
	return func(n Note, fired int) Fault {
		if fired > 0 || n.Call != target.Call || n.Nth < target.Nth {
			return None
		}
		return what
	}
}

// every call that is made for the first time meets the fault.
func every(what Fault) Faults {
	return func(n Note, _ int) Fault {
		if n.Nth > 1 {
			return None
		}
		return what
	}
}

// Proxy stands between one replica of the autoscaler and the API server. It
// passes everything on as it is, names the writes, and does to them what a test
// asks for. It is safe for concurrent use.
type Proxy struct {
	URL string

	backend *httputil.ReverseProxy
	server  *http.Server
	watches *watches

	mu    sync.Mutex
	notes []Note
	seen  map[Call]int
	fault Faults
	fired []Note // calls that met their fault
	kill  func() // ends the replica, at once
	pause func() // stops the replica
	down  bool
	lists map[string]int // whole lists asked for, by resource
}

// newProxy listens on the loopback until Close, with cert: client-go sends its
// token only over TLS.
func newProxy(rc *rest.Config, cert tls.Certificate) (*Proxy, error) {
	to, err := url.Parse(rc.Host)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", rc.Host, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(rc.CAData)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the proxy: %w", err)
	}
	p := &Proxy{
		URL: "https://" + listener.Addr().String(), watches: newWatches(),
		seen: map[Call]int{}, lists: map[string]int{},
	}
	p.backend = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
		FlushInterval: -1,
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{
		Handler: p, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		// Of HTTP/2 a handler can only end a stream; what is tested is a connection.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     log.New(io.Discard, "", 0), // every process that is killed leaves an EOF
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }() // ends with Close
	return p, nil
}

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() { _ = p.server.Close() }

// Arm forgets all calls and does to those that come what fault says. kill and
// pause act on the replica; either may be nil where no fault needs it.
func (p *Proxy) Arm(fault Faults, kill, pause func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes, p.seen, p.lists, p.fired = nil, map[Call]int{}, map[string]int{}, nil
	p.fault, p.kill, p.pause = fault, kill, pause
}

// Notes are the numbered calls since Arm, in order.
func (p *Proxy) Notes() []Note {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Note(nil), p.notes...)
}

// Fired are the calls that met their fault.
func (p *Proxy) Fired() []Note {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Note(nil), p.fired...)
}

// Lists is how often the whole of each resource was asked for, and starts over.
func (p *Proxy) Lists() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.lists
	p.lists = map[string]int{}
	return out
}

// Down makes the API server unreachable through this proxy, or reachable again.
func (p *Proxy) Down(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.watches.interrupt()
	}
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	down := p.down
	p.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler)
	}
	if r.Method == http.MethodGet {
		p.read(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	call, writes := parseCall(r.Method, r.URL.Path, body)
	if !writes || !call.numbered() {
		p.backend.ServeHTTP(w, r)
		return
	}
	p.write(w, r, call)
}

// read passes reading on, and counts whole lists.
func (p *Proxy) read(w http.ResponseWriter, r *http.Request) {
	t, ok := parseTarget(r.URL.Path)
	q := r.URL.Query()
	watch := q.Get("watch") == "true" || q.Get("watch") == "1"
	whole := ok && t.name == "" && q.Get("labelSelector") == "" && q.Get("fieldSelector") == "" && q.Get("continue") == ""
	if whole && (!watch || q.Get("sendInitialEvents") == "true") {
		p.mu.Lock()
		p.lists[t.resource]++
		p.mu.Unlock()
	}
	if watch {
		p.watches.serve(w, r, t.resource, p.backend)
		return
	}
	p.backend.ServeHTTP(w, r)
}

// write notes a call and does to it what the test asks for.
func (p *Proxy) write(w http.ResponseWriter, r *http.Request, call Call) {
	i, fault := p.note(call)
	switch fault {
	case KillBefore:
		p.meets(i)
		p.kill()
		panic(http.ErrAbortHandler)
	case Error409:
		p.meets(i)
		refuse(w, http.StatusConflict, "Conflict", "injected conflict")
		return
	case Error429:
		p.meets(i)
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, "TooManyRequests", "injected rate limit")
		return
	}
	answer := httptest.NewRecorder()
	// What was sent arrives, even if the sender is no more.
	p.backend.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
	if done := p.answered(i, answer.Code); done && fault != None {
		p.meets(i)
		switch fault {
		case KillAfter:
			p.kill()
			panic(http.ErrAbortHandler)
		case Lost:
			panic(http.ErrAbortHandler)
		case Error500:
			refuse(w, http.StatusInternalServerError, "InternalError", "injected error after the write")
			return
		case PauseAfter:
			p.pause()
		}
	}
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (p *Proxy) note(call Call) (int, Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[call]++
	n := Note{Call: call, Nth: p.seen[call]}
	p.notes = append(p.notes, n)
	f := None
	if p.fault != nil {
		f = p.fault(n, len(p.fired))
	}
	return len(p.notes) - 1, f
}

func (p *Proxy) meets(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i < len(p.notes) { // or another run has begun
		p.fired = append(p.fired, p.notes[i])
	}
}

// answered records the API server's status, and reports whether the write was done.
func (p *Proxy) answered(i, code int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i < len(p.notes) {
		p.notes[i].Status = code
	}
	return code < http.StatusMultipleChoices
}

// refuse answers as the API server would.
func refuse(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
}
