package world

import (
	"net/http"
	"sync"
)

// pages is one HTTP server with a metrics page for each simulated server, which has no
// process of its own.
type pages struct {
	address string
	byPath  sync.Map // http.Handler
}

// ServeHTTP implements http.Handler.
func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, ok := p.byPath.Load(r.URL.Path); ok {
		h.(http.Handler).ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}
