package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
)

// shutdownTimeout is how long open requests may take after Run's context ends.
const shutdownTimeout = 5 * time.Second

// Options says what is served and where. Only Address is required.
type Options struct {
	// Address is "host:port", ":port" or "unix:/path". Port 0 takes a free port,
	// which Server.Addr returns.
	Address string
	// Systemd serves on the sockets that systemd bound for the service instead.
	Systemd bool
	// Metrics answers /metrics; nil serves none.
	Metrics http.Handler
	// Ready returns nil when the program has data to serve, else the reason. A nil
	// Ready is always ready. It is called per request and must not block.
	Ready func() error
	// Live returns nil while the program's loop runs. A nil Live is always live.
	Live func() error
	// Routes adds further paths; nil adds none.
	Routes func(*http.ServeMux)
	// WebConfigFile is an exporter-toolkit web config (TLS, basic auth); empty
	// serves plain HTTP.
	WebConfigFile string
	// Log is required when WebConfigFile is set; nil discards.
	Log *slog.Logger
}

// readWithin bounds how long a request may take to arrive. All requests to our programs are short.
const readWithin = 10 * time.Second

// Server is a bound listener and what it serves.
type Server struct {
	listener  net.Listener // nil: systemd's
	http      *http.Server
	webConfig string
	log       *slog.Logger
}

// New binds the address, so that a taken port is an error before anything else
// starts, and checks the web config file. Run serves it; Close releases it if Run
// is not called.
func New(o Options) (*Server, error) {
	if err := web.Validate(o.WebConfigFile); err != nil {
		return nil, fmt.Errorf("web config file %s: %w", o.WebConfigFile, err)
	}
	var listener net.Listener
	if !o.Systemd {
		var err error
		if listener, err = listen(o.Address); err != nil {
			return nil, err
		}
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		listener:  listener,
		webConfig: o.WebConfigFile,
		log:       log,
		http: &http.Server{
			Handler:           handler(o),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       readWithin,
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
	}, nil
}

// Addr is the address bound, with the real port.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return &net.UnixAddr{Name: "systemd's socket"}
	}
	return s.listener.Addr()
}

// Close releases the listener. It is only needed if Run is not called.
func (s *Server) Close() error { return s.listener.Close() }

// Run serves until ctx ends, then lets open requests finish for at most five
// seconds. It returns nil after such an end, and the error that stopped it
// otherwise. It can be called once.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { failed <- s.serve() })
	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", s.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := s.http.Shutdown(end)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close() // a client that never finishes must not keep the process
	}
	serving.Wait()
	if err != nil {
		return fmt.Errorf("shutting down the server on %s: %w", s.Addr(), err)
	}
	return nil
}

func (s *Server) serve() error {
	systemd := s.listener == nil
	switch flags := (&web.FlagConfig{WebConfigFile: &s.webConfig, WebSystemdSocket: &systemd}); {
	case systemd:
		return web.ListenAndServe(s.http, flags, s.log)
	case s.webConfig != "":
		return web.Serve(s.listener, s.http, flags, s.log)
	}
	return s.http.Serve(s.listener)
}

// listen binds "host:port", ":port" or "unix:/path". Its errors explain a taken or
// forbidden address. A stale socket file is replaced; one that answers is not.
func listen(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(path)
	}
	if address == "" {
		return nil, errors.New(`listening: no address given, want "host:port" or ":port"`)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, explain(address, err)
	}
	return l, nil
}

func listenUnix(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && stale(path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listening on unix:%s: removing the old socket: %w", path, err)
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, explain("unix:"+path, err)
	}
	return l, nil
}

// stale reports whether path is a socket that refuses connections: its process
// ended without removing it.
func stale(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func explain(address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listening on %s: the address is in use: another process listens there; stop it or choose another address: %w", address, syscall.EADDRINUSE)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("listening on %s: not permitted for this user; ports below 1024 need a capability, choose a higher one: %w", address, syscall.EACCES)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("listening on %s: this machine has no such address: %w", address, syscall.EADDRNOTAVAIL)
	}
	return fmt.Errorf("listening on %s: %w", address, err)
}

func handler(o Options) http.Handler {
	mux := http.NewServeMux()
	if o.Metrics != nil {
		mux.Handle("GET /metrics", o.Metrics)
	}
	mux.Handle("GET /readyz", state("not ready", o.Ready))
	mux.Handle("GET /livez", state("not live", o.Live))
	if o.Routes != nil {
		o.Routes(mux)
	}
	return mux
}

// state answers 200 "ok" or 503 with the reason.
func state(failed string, check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if check != nil {
			if err := check(); err != nil {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = fmt.Fprintf(w, "%s: %v\n", failed, err)
				return
			}
		}
		_, _ = io.WriteString(w, "ok\n")
	})
}

// A page of metrics is in memory until it is written, and any client of the pod network may request it. So at most
// maxScrapes are written at once, each within scrapeWithin.
const (
	maxScrapes   = 40
	scrapeWithin = 10 * time.Second
)

// Metrics serves a registry, with OpenMetrics and protobuf negotiated. Errors of
// gathering are logged and the rest is served.
func Metrics(g prometheus.Gatherer, log *slog.Logger) http.Handler {
	pages := promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError,
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: maxScrapes,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeWithin)) // of this request alone
		pages.ServeHTTP(w, r)
	})
}
