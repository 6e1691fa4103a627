package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// keep is how long a large answer is given again. This process shares the
// processors with the adapter, and must not slow it by working for it. An
// answer says when it was evaluated, so it stays a true one.
const keep = time.Minute

// kept is a large answer, or the place for one.
type kept struct {
	sync.Mutex
	at   time.Time
	body []byte
}

// prometheusDouble answers the HTTP API with Prometheus's own engine over a
// store that is made up. It is a double: there is no scraping and no disk.
type prometheusDouble struct {
	URL     string
	store   *store
	engine  *promql.Engine
	parser  parser.Parser
	server  *http.Server
	same    map[string]string // queries that mean another one here
	mu      sync.Mutex
	kept    map[string]*kept
	queries atomic.Int64 // to /api/v1/query
	series  atomic.Int64 // to /api/v1/series
}

func startPrometheus(f fleet) (*prometheusDouble, error) {
	p := &prometheusDouble{store: newStore(f), parser: parser.NewParser(parser.Options{}), same: map[string]string{}, kept: map[string]*kept{}}
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
		return nil, fmt.Errorf("listening for the double of Prometheus: %w", err)
	}
	p.URL = "http://" + listener.Addr().String()
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(listener) }()
	return p, p.warm(f)
}

// warm makes the large answers before anybody's time runs for them.
func (p *prometheusDouble) warm(f fleet) error {
	for _, s := range f.signals {
		for _, r := range signal.Builtin(time.Minute) {
			if r.Name != s.signal {
				continue
			}
			if _, err := p.body(context.Background(), r.Query(), time.Now()); err != nil {
				return fmt.Errorf("the double of Prometheus: %w", err)
			}
		}
	}
	return nil
}

func (p *prometheusDouble) stop() { _ = p.server.Close() }

func (p *prometheusDouble) query(w http.ResponseWriter, r *http.Request) {
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
	body, err := p.body(r.Context(), r.FormValue("query"), at)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// body answers a query, a large one at most once in keep. The client's leaving
// does not end the work: the next one wants the same.
func (p *prometheusDouble) body(ctx context.Context, text string, at time.Time) ([]byte, error) {
	if plain, ok := p.same[text]; ok {
		text = plain
	}
	p.mu.Lock()
	k, large := p.kept[text]
	p.mu.Unlock()
	if !large {
		body, err := p.answer(context.WithoutCancel(ctx), text, at)
		if len(body) > 1<<20 {
			p.mu.Lock()
			p.kept[text] = &kept{at: at, body: body}
			p.mu.Unlock()
		}
		return body, err
	}
	k.Lock()
	defer k.Unlock()
	if at.Sub(k.at) < keep {
		return k.body, nil
	}
	body, err := p.answer(context.WithoutCancel(ctx), text, at)
	if err == nil {
		k.at, k.body = at, body
	}
	return body, err
}

func (p *prometheusDouble) answer(ctx context.Context, text string, at time.Time) ([]byte, error) {
	q, err := p.engine.NewInstantQuery(ctx, p.store, nil, text, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	vector, err := result.Vector()
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 128+256*len(vector))
	out = append(out, `{"status":"success","data":{"resultType":"vector","result":[`...)
	for i, s := range vector {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendLabels(append(out, `{"metric":`...), s.Metric), `,"value":[`...)
		out = strconv.AppendFloat(out, float64(at.UnixMilli())/1000, 'f', 3, 64)
		out = append(strconv.AppendFloat(append(out, `,"`...), s.F, 'f', -1, 64), `"]}`...)
	}
	return append(out, "]}}"...), nil
}

// discover lists the series of each matcher, as prometheus-adapter asks when
// it looks what there is.
func (p *prometheusDouble) discover(w http.ResponseWriter, r *http.Request) {
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
		set := (&querier{store: p.store}).Select(r.Context(), false, nil, matchers...)
		for set.Next() {
			if out[len(out)-1] != '[' {
				out = append(out, ',')
			}
			out = appendLabels(out, set.At().Labels())
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(out, "]}"...))
}

// appendLabels as JSON. All names and values of the fleet are plain ASCII.
func appendLabels(out []byte, ls labels.Labels) []byte {
	out = append(out, '{')
	ls.Range(func(l labels.Label) {
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = strconv.AppendQuote(out, l.Name)
		out = strconv.AppendQuote(append(out, ':'), l.Value)
	})
	return append(out, '}')
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "bad_data", "error": err.Error()})
}
