package play

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/preview"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/serve"
)

// boardsTimeout of one query of a board.
const boardsTimeout = 20 * time.Second

// boardsPage is the page that opens first. It shows the time of the story, not the default half hour.
const boardsPage = "/gpuscale-autoscaler?since=5m"

// serveBoards serves the boards on a port of the loopback until ctx ends. It returns the first board's URL
// and a function that waits for the end.
func serveBoards(ctx context.Context, prometheus string, scrape time.Duration, log *slog.Logger) (url string, wait func(), err error) {
	client, err := prom.New(prom.Config{URL: prometheus, Timeout: boardsTimeout})
	if err != nil {
		return "", nil, fmt.Errorf("serving the boards: %w", err)
	}
	server, err := serve.New(serve.Options{Address: "127.0.0.1:0", Log: log, Routes: func(mux *http.ServeMux) {
		preview.Routes(mux, client, boards.All(), scrape)
	}})
	if err != nil {
		return "", nil, fmt.Errorf("serving the boards: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Run(ctx); err != nil {
			log.Warn("the boards' preview ended", "error", err)
		}
	}()
	return "http://" + server.Addr().String() + boardsPage, func() { <-ended }, nil
}
