package preview

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// DefaultLength is the time that a page shows by default.
const DefaultLength = 30 * time.Minute

// Bounds of a page: the longest time shown, and its time-out.
const (
	maxLength = 7 * 24 * time.Hour
	patience  = time.Minute
)

// Routes adds the boards' pages, one each, drawn again for each request:
// /gpuscale-overview?since=30m. Pages load nothing else.
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
			picture := Board(ctx, src, b, Window(time.Now(), length, scrape))
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
			_, _ = w.Write([]byte(framed(b, boards, length, picture)))
		})
	}
}

func since(text string) (time.Duration, error) {
	if text == "" {
		return DefaultLength, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Minute || d > maxLength {
		return 0, fmt.Errorf("since=%q: want a time such as 30m, from 1m to %s", text, maxLength)
	}
	return d, nil
}

// framed wraps a board's picture, with links to the other boards and times. It refreshes
// every 15 seconds.
func framed(b board.Board, boards []board.Board, length time.Duration, picture string) string {
	var nav strings.Builder
	for _, o := range boards {
		current := ""
		if o.UID == b.UID {
			current = ` aria-current="page"`
		}
		fmt.Fprintf(&nav, `<a href="/%s?since=%s"%s>%s</a> `, o.UID, length, current, html.EscapeString(strings.TrimPrefix(o.Title, "gpuscale / ")))
	}
	nav.WriteString(`<span></span>`)
	for _, d := range []time.Duration{5 * time.Minute, 30 * time.Minute, 6 * time.Hour, 24 * time.Hour} {
		current := ""
		if d == length {
			current = ` aria-current="true"`
		}
		short := strings.Replace(strings.TrimSuffix(d.String(), "0s"), "h0m", "h", 1)
		fmt.Fprintf(&nav, `<a href="/%s?since=%s"%s>%s</a> `, b.UID, d, current, short)
	}
	return fmt.Sprintf(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="15"><meta name="viewport" content="width=device-width">
<title>%s (%s)</title>
<style>body{margin:0;background:#f3f4f6;font:14px Inter,"DejaVu Sans",Helvetica,Arial,sans-serif;color:#24292e}
nav{display:flex;gap:16px;padding:10px 14px;background:#fff;border-bottom:1px solid #dfe2e5;flex-wrap:wrap}
nav span{flex:1}nav a{color:#57606a;text-decoration:none}nav a[aria-current]{color:#24292e;font-weight:600}svg{display:block;max-width:100%%;height:auto}</style></head>
<body><nav aria-label="Boards">%s</nav>
%s</body></html>
`, html.EscapeString(b.Title), Label, nav.String(), picture)
}
