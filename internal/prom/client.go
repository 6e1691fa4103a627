package prom

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Client queries one server. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http func() (*http.Client, error)
}

// New checks the configuration, TLS files included, and returns a client. It
// does not contact the server.
func New(cfg Config) (*Client, error) {
	c := Later(cfg)
	err := cfg.Validate()
	if err == nil {
		_, err = c.http()
	}
	if err != nil {
		return nil, fmt.Errorf("prometheus configuration: %w", err)
	}
	return c, nil
}

// Later returns the client of a valid configuration whose TLS files may not exist yet. Until
// they can be read, each query fails with [ErrUnavailable].
func Later(cfg Config) *Client {
	var mu sync.Mutex
	var made *http.Client
	return &Client{cfg: cfg.withDefaults(), http: func() (client *http.Client, err error) {
		mu.Lock()
		defer mu.Unlock()
		if made == nil {
			made, err = cfg.client()
		}
		return made, err
	}}
}

// Limits bound an answer. A zero field means the client's own limit.
type Limits struct {
	Series int
	Bytes  int64
	// Parameters are sent in addition to the client's.
	Parameters map[string]string
}

// Query evaluates promql as an instant query at the given time (the zero time:
// the server's now) and returns its vector. Any warning makes the answer a
// [*PartialError]; on error the vector is nil. See the Err variables for the
// kinds of failure.
func (c *Client) Query(ctx context.Context, promql string, at time.Time) (Vector, error) {
	return c.QueryWithin(ctx, promql, at, Limits{})
}

// QueryWithin is Query with narrower limits, and further parameters.
func (c *Client) QueryWithin(ctx context.Context, promql string, at time.Time, most Limits) (Vector, error) {
	series, size := c.cfg.MaxSeries, c.cfg.MaxResponseBytes
	if most.Series > 0 {
		series = min(series, most.Series)
	}
	if most.Bytes > 0 {
		size = min(size, most.Bytes)
	}
	form := url.Values{
		"query":   {promql},
		"timeout": {seconds(c.cfg.Timeout)},
		// One more than accepted, so that a truncated answer is detected as
		// too large.
		"limit": {strconv.Itoa(series + 1)},
	}
	for name, value := range most.Parameters {
		form.Set(name, value)
	}
	if !at.IsZero() {
		form.Set("time", unix(at))
	}
	var vector Vector
	if err := c.get(ctx, "api/v1/query", form, size, vector.read(series)); err != nil {
		return nil, err
	}
	return vector, nil
}

// always is sent with each request. A parameter of the configuration replaces it, and servers
// that do not know a parameter ignore it.
var always = map[string]string{
	// VictoriaMetrics' least age of the samples it returns. Its default, 30 s, would add to the
	// age of every value.
	"latency_offset": "1ms",
	// Thanos fails where a store is away. By default it warns, but its query frontend loses the
	// warnings of an instant query that it shards (MergeResponse in
	// pkg/queryfrontend/queryinstant_codec.go at e103a81).
	"partial_response": "false",
}

// Range evaluates promql at every step from one time to another. Errors are those
// of [Client.Query]; an answer with warnings is an [ErrPartial]. The server bounds the steps:
// Prometheus takes 11,000.
func (c *Client) Range(ctx context.Context, promql string, from, to time.Time, step time.Duration) ([]Line, error) {
	var lines []Line
	err := c.get(ctx, "api/v1/query_range", url.Values{
		"query": {promql}, "timeout": {seconds(c.cfg.Timeout)},
		"start": {unix(from)}, "end": {unix(to)}, "step": {seconds(step)},
	}, c.cfg.MaxResponseBytes, readResult("matrix", c.cfg.MaxSeries, func(s *series) error {
		lines = append(lines, Line{Labels: s.labels, Points: slices.Clone(s.values)})
		return nil
	}))
	if err != nil {
		return nil, err
	}
	return lines, nil
}

// Family is a metric name and a set of label names that some series have, without
// the labels' values.
type Family struct {
	Name   string
	Labels []string // sorted, without the name's own
}

// listing multiplies the time and size limits of an answer for a list of series. There may be
// millions of series, but of few families, and only those are kept.
const listing = 6

// Series returns the families of series that match a selector and had a sample
// since a time, in the order of each family's first series in the answer. More than
// MaxSeries families are an error. Errors are those of [Client.Query]; an answer
// with warnings is an [ErrPartial].
func (c *Client) Series(ctx context.Context, selector string, since time.Time) ([]Family, error) {
	var families []Family
	form := url.Values{"match[]": {selector}, "start": {unix(since)}}
	patient := *c
	patient.cfg.Timeout *= listing
	if err := patient.get(ctx, "api/v1/series", form, listing*c.cfg.MaxResponseBytes, readFamilies(&families, c.cfg.MaxSeries)); err != nil {
		return nil, err
	}
	return families, nil
}

func unix(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// seconds writes a duration in seconds: Prometheus does not read Go's own notation,
// 2.5s.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// get sends a request to an endpoint, a path below the server's URL, and reads
// the answer's data with read. ctx and the timeout bound the reading too.
func (c *Client) get(ctx context.Context, path string, form url.Values, most int64, read reader) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	resp, err := c.send(ctx, path, form)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{code: resp.StatusCode}
	bounded := http.MaxBytesReader(nil, resp.Body, most)
	body := bufio.NewReader(bounded)
	if a.code != http.StatusOK {
		a.text, _ = body.Peek(maxText)
		a.text = bytes.Clone(a.text)
	}
	err = a.decode(body, read)
	_, beyond := bounded.Read(nil) // the body's last error again: decode's error may not wrap it
	switch {
	case errors.As(beyond, new(*http.MaxBytesError)):
		return fmt.Errorf("%w: body limit reached", ErrTooLarge)
	case errors.Is(err, ErrTooLarge):
		return err
	case a.refused():
		return refused{a.problem(err)}
	}
	return a.problem(err)
}

func (c *Client) send(ctx context.Context, path string, form url.Values) (*http.Response, error) {
	endpoint, err := url.JoinPath(c.cfg.URL, path)
	if err != nil {
		return nil, fmt.Errorf("%w: url: %w", ErrUnavailable, err)
	}
	for name, value := range always {
		form.Set(name, value)
	}
	for name, value := range c.cfg.Parameters {
		if form.Set(name, value); value == "" {
			form.Del(name)
		}
	}
	client, err := c.http()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	target, body := endpoint, io.Reader(strings.NewReader(form.Encode()))
	if c.cfg.Method == http.MethodGet {
		body = nil
		if len(form) > 0 {
			target += "?" + form.Encode()
		}
	}
	req, err := http.NewRequestWithContext(ctx, c.cfg.Method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadQuery, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", "application/json")
	// A stored answer is older than it seems. Trickster stores those of instant queries (2.0,
	// pkg/backends/prometheus/handler_query.go), the query frontends of Thanos, Cortex and Mimir
	// only others; they read "no-store".
	req.Header.Set("Cache-Control", "no-cache, no-store")
	resp, err := client.Do(req)
	// Errors of the request contain its URL and go into logs and answers; its
	// parameters may be secret.
	if bare, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s %s: %w", c.cfg.Method, endpoint, bare.Err)
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		err = refused{err}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return resp, nil
}
