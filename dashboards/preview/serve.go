package preview

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// defaultLength is the time range of a page by default.
const defaultLength = 30 * time.Minute

// Bounds of a page: the longest time range, and the timeout.
const (
	maxLength = 7 * 24 * time.Hour
	patience  = time.Minute
)

// Routes adds one page for each board, drawn again for each request: /gpuscale-overview?since=30m. Pages load
// no other resources.
func Routes(mux *http.ServeMux, src eval.Source, boards []board.Board, scrape time.Duration) {
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if len(boards) > 0 {
			http.Redirect(w, r, "/"+boards[0].UID, http.StatusFound)
		}
	})
	for _, b := range boards {
		mux.HandleFunc("GET /"+b.UID, func(w http.ResponseWriter, r *http.Request) {
			length, err := since(r.FormValue("since"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			ctx, stop := context.WithTimeout(r.Context(), patience)
			defer stop()
			v := look(ctx, src, b, Window(time.Now(), length, scrape))
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
			_, _ = io.WriteString(w, written("page", page{v, boards, length}))
		})
	}
}

func since(text string) (time.Duration, error) {
	if text == "" {
		return defaultLength, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Minute || d > maxLength {
		return 0, fmt.Errorf("since=%q: want a time such as 30m, from 1m to %s", text, maxLength)
	}
	return d, nil
}

// page is a board's view with links to the other boards and time ranges. It refreshes every 15 seconds.
type page struct {
	view
	Boards []board.Board
	Length time.Duration
}

// Lengths returns the time ranges that a page links to.
func (page) Lengths() []time.Duration {
	return []time.Duration{5 * time.Minute, 30 * time.Minute, 6 * time.Hour, 24 * time.Hour}
}

// shortly formats 5m0s as 5m and 6h0m0s as 6h.
func shortly(d time.Duration) string {
	return strings.Replace(strings.TrimSuffix(d.String(), "0s"), "h0m", "h", 1)
}
