// Package promtest is a fake Prometheus for tests: an HTTP server with scripted
// answers and failures. It evaluates nothing.
package promtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Series is one element of an answer.
type Series struct {
	Labels map[string]string
	Value  float64
}

// Response to one query. The zero Response is an empty vector.
type Response struct {
	Status   int    // 200 if zero
	Body     string // sent unchanged, in place of Vector and Warnings
	Vector   []Series
	Warnings []string
	At       time.Time // evaluation time; now if zero
	Delay    time.Duration
}

// Server answers every query with its current script. A range query gets the script's
// values at its start and end.
type Server struct {
	URL string

	mu      sync.Mutex
	script  func(query string) Response
	queries []*http.Request
}

// New starts a server that answers with empty vectors and stops with the test.
func New(t testing.TB) *Server {
	s := &Server{script: func(string) Response { return Response{} }}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Answer makes r the answer to everything from now on.
func (s *Server) Answer(r Response) { s.Script(func(string) Response { return r }) }

// Script computes answers from now on.
func (s *Server) Script(script func(query string) Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// Queries returns the requests received, forms parsed.
func (s *Server) Queries() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.queries...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	over, known := map[string]bool{"/api/v1/query": false, "/api/v1/query_range": true}[req.URL.Path]
	if err := req.ParseForm(); err != nil || !known || req.Method != http.MethodPost && req.Method != http.MethodGet {
		http.Error(w, "not a query to /api/v1/query", http.StatusNotFound)
		return
	}
	s.mu.Lock()
	s.queries = append(s.queries, req)
	script := s.script
	s.mu.Unlock()
	r := script(req.Form.Get("query"))
	if r.Delay > 0 {
		select {
		case <-time.After(r.Delay):
		case <-req.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Status != 0 {
		w.WriteHeader(r.Status)
	}
	if r.Body != "" {
		_, _ = w.Write([]byte(r.Body))
		return
	}
	_, _ = w.Write(r.body(over, req.Form))
}

func (r Response) body(over bool, form url.Values) []byte {
	at := strconv.FormatFloat(float64(cmp.Or(r.At, time.Now()).UnixMilli())/1000, 'f', 3, 64)
	kind, result := "vector", []any{}
	for _, s := range r.Vector {
		point := func(seconds string) []any {
			return []any{json.Number(seconds), strconv.FormatFloat(s.Value, 'g', -1, 64)}
		}
		one := map[string]any{"metric": s.Labels, "value": point(at)}
		if over {
			one = map[string]any{"metric": s.Labels, "values": []any{point(form.Get("start")), point(form.Get("end"))}}
		}
		result = append(result, one)
	}
	if over {
		kind = "matrix"
	}
	data, err := json.Marshal(result)
	if err != nil {
		return []byte(`{"status":"error","error":"promtest could not write its answer"}`)
	}
	warnings, _ := json.Marshal(r.Warnings) // text
	return fmt.Appendf(nil, `{"status":"success","warnings":%s,"data":{"resultType":%q,"result":%s}}`, warnings, kind, data)
}
