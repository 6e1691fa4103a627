package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// fakePrometheus answers the HTTP API with Prometheus's own engine over a
// synthetic store: it has no scraping and no disk, and evaluates the queries of
// gpuscale's rules only once: see plate.
type fakePrometheus struct {
	URL     string
	store   *store
	engine  *promql.Engine
	parser  parser.Parser
	server  *http.Server
	same    map[string]string // queries with the same answer as another
	plates  map[string]*plate // by query; read-only after warm
	queries atomic.Int64      // to /api/v1/query
	series  atomic.Int64      // to /api/v1/series
}

func startPrometheus(f fleet) (*fakePrometheus, error) {
	p := &fakePrometheus{store: newStore(f), parser: parser.NewParser(parser.Options{}), same: map[string]string{}, plates: map[string]*plate{}}
	for _, r := range signal.Builtin(time.Minute) {
		p.same[r.History()] = r.Query() // no series of the fleet has ended
	}
	p.engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: 2 * time.Minute, LookbackDelta: time.Minute, Parser: p.parser,
	})
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/query", p.query)
	mux.HandleFunc("/api/v1/series", p.discover)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the fake of Prometheus: %w", err)
	}
	p.URL = "http://" + listener.Addr().String()
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	if err := p.warm(f); err != nil {
		return nil, err
	}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// warm makes the plates before the measurement.
func (p *fakePrometheus) warm(f fleet) error {
	for _, s := range f.signals {
		for _, r := range signal.Builtin(time.Minute) {
			if r.Name != s.signal {
				continue
			}
			vector, err := p.evaluate(context.Background(), r.Query(), time.Now())
			if err != nil {
				return fmt.Errorf("the fake of Prometheus: %w", err)
			}
			p.plates[r.Query()] = newPlate(vector)
		}
	}
	runtime.GC() // the engine's garbage, not during the measurement
	return nil
}

func (p *fakePrometheus) stop() { _ = p.server.Close() }

func (p *fakePrometheus) query(w http.ResponseWriter, r *http.Request) {
	p.queries.Add(1)
	at := time.Now()
	if text := r.FormValue("time"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			refuse(w, err)
			return
		}
		at = time.UnixMilli(int64(seconds * 1000))
	}
	text := r.FormValue("query")
	if plain, ok := p.same[text]; ok {
		text = plain
	}
	w.Header().Set("Content-Type", "application/json")
	if plate := p.plates[text]; plate != nil {
		w.Header().Set("Content-Length", strconv.Itoa(len(plate.body)))
		plate.print(w, at)
		return
	}
	vector, err := p.evaluate(r.Context(), text, at)
	if err != nil {
		refuse(w, err)
		return
	}
	_, _ = w.Write(appendVector(nil, vector, at))
}

func (p *fakePrometheus) evaluate(ctx context.Context, text string, at time.Time) (promql.Vector, error) {
	vector, _, err := memstore.Instant(ctx, p.engine, p.store, text, at)
	return vector, err
}

// discover lists the series of each matcher, for prometheus-adapter's discovery.
func (p *fakePrometheus) discover(w http.ResponseWriter, r *http.Request) {
	p.series.Add(1)
	if err := r.ParseForm(); err != nil {
		refuse(w, err)
		return
	}
	out := []byte(`{"status":"success","data":[`)
	for _, text := range r.Form["match[]"] {
		matchers, err := p.parser.ParseMetricSelector(text)
		if err != nil {
			refuse(w, err)
			return
		}
		for _, found := range p.store.find(0, 0, matchers) {
			if out[len(out)-1] != '[' {
				out = append(out, ',')
			}
			out = appendLabels(out, found.Labels())
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(out, "]}"...))
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "bad_data", "error": err.Error()})
}
