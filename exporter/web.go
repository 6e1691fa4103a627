package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/serve"
)

// runServer serves until ctx ends, on the address or on systemd's socket.
func runServer(ctx context.Context, c *config, n *node.Node, log *slog.Logger) error {
	server, err := serve.New(serve.Options{
		Address: c.address, Systemd: c.systemdSocket, Metrics: limited(c, n.Handler()), Ready: n.Ready,
		WebConfigFile: c.webConfigFile, Log: log, Routes: routes(c, n),
	})
	if err != nil {
		return err
	}
	log.Info("serving", "address", server.Addr().String(), "node", c.node, "interval", c.interval().String(), "version", buildinfo.Version())
	return server.Run(ctx)
}

// limited bounds how many scrapes there are at once and how long each may take.
func limited(c *config, scrape http.Handler) http.Handler {
	var slots chan struct{}
	if c.maxScrapes > 0 {
		slots = make(chan struct{}, c.maxScrapes)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slots != nil {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			default:
				http.Error(w, fmt.Sprintf("%d scrapes are under way, which is as many as --max-concurrent-scrapes allows", c.maxScrapes), http.StatusServiceUnavailable)
				return
			}
		}
		control := http.NewResponseController(w) // of this request alone
		_ = control.SetReadDeadline(within(c.timeouts.read))
		_ = control.SetWriteDeadline(within(c.timeouts.write))
		scrape.ServeHTTP(w, r)
	})
}

// within returns a deadline, none for 0.
func within(d time.Duration) (deadline time.Time) {
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	return deadline
}

const indexPage = `<html>
<head><title>GPU Exporter</title></head>
<body>
<h1>GPU Exporter</h1>
<p><a href="./metrics">Metrics</a></p>
<p><a href="./readyz">Ready</a> <a href="./livez">Live</a></p>
</body>
</html>
`

// routes are dcgm-exporter's other paths.
func routes(c *config, n *node.Node) func(*http.ServeMux) {
	return func(mux *http.ServeMux) {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = io.WriteString(w, indexPage)
		})
		mux.Handle("GET /health", health(c, n))
		if !c.pprof {
			return
		}
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol) // asked by POST
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
}

// health answers as dcgm-exporter does: 200 while the process lives, with two
// headers about its state. /readyz reports whether there is data.
func health(c *config, n *node.Node) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		reading := n.Reading()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("X-Registry-Available", fmt.Sprint(reading != nil))
		if reading == nil || n.Reloading() {
			w.Header().Set("X-Reload-In-Progress", "true")
		}
		switch {
		case c.requireGPUs && (reading == nil || reading.GPUs() == 0):
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "no GPU is seen")
		case reading == nil:
			_, _ = io.WriteString(w, "OK - reload in progress")
		default:
			_, _ = io.WriteString(w, "OK")
		}
	}
}
