package serve

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

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

// Metrics serves a registry, with OpenMetrics and protobuf negotiated. Errors of
// gathering are logged and the rest is served.
func Metrics(g prometheus.Gatherer, log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	})
}
