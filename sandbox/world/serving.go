package world

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// pages is one HTTP server with a metrics page for everything that has no
// process of its own: simulated servers and replayed nodes.
type pages struct {
	listener net.Listener
	server   *http.Server

	mu    sync.Mutex
	pages map[string]http.Handler // by path
}

func newPages(log *slog.Logger) (*pages, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the simulated servers' metrics: %w", err)
	}
	p := &pages{listener: l, pages: map[string]http.Handler{}}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() { _ = p.server.Serve(l) }() // ends with stop
	return p, nil
}

// ServeHTTP implements http.Handler.
func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	h := p.pages[strings.TrimSuffix(r.URL.Path, "/")]
	p.mu.Unlock()
	if h == nil {
		http.NotFound(w, r)
		return
	}
	h.ServeHTTP(w, r)
}

func (p *pages) set(path string, h http.Handler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h == nil {
		delete(p.pages, path)
		return
	}
	p.pages[path] = h
}

func (p *pages) address() string { return p.listener.Addr().String() }

func (p *pages) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = p.server.Shutdown(ctx)
}
