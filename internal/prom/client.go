package prom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Client queries one server. It is safe for concurrent use.
type Client struct {
	cfg       Config
	transport *transport
}

// New checks the configuration, TLS files included, and returns a client. It
// does not contact the server.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("prometheus configuration: %w", err)
	}
	cfg = cfg.withDefaults()
	t := &transport{cfg: cfg}
	if _, err := t.current(); err != nil {
		return nil, fmt.Errorf("prometheus configuration: %w", err)
	}
	return &Client{cfg: cfg, transport: t}, nil
}

// Query evaluates promql as an instant query at the given time (the zero time:
// the server's now) and returns its vector. Any warning makes the answer a
// [*PartialError]; on error the vector is nil. See the Err variables for the
// kinds of failure.
func (c *Client) Query(ctx context.Context, promql string, at time.Time) (Vector, error) {
	var b vectorBuilder
	err := c.each(ctx, promql, at, new(sync.Mutex), b.add)
	if partial, ok := errors.AsType[*PartialError](err); ok {
		partial.Vector = b.vector
	}
	if err != nil {
		return nil, err
	}
	return b.vector, nil
}

// Each is Query for large answers: it builds no vector, and passes each element
// to take as it arrives. Labels are pairs of name and value in order of name,
// none empty, and valid until take returns. After an error the caller discards
// all elements. lock is held while the answer is processed, and not while
// waiting for the server: queries that share a lock leave processors free.
func (c *Client) Each(ctx context.Context, promql string, at time.Time, lock sync.Locker, take func(labels [][2][]byte, value float64, at time.Time)) error {
	return c.each(ctx, promql, at, lock, func(e element) { take(e.labels, e.value, e.at) })
}

func (c *Client) each(ctx context.Context, promql string, at time.Time, lock sync.Locker, take func(element)) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	form := url.Values{
		"query":   {promql},
		"timeout": {c.cfg.Timeout.String()},
		// One more than accepted, so that a truncated answer is detected as
		// too large.
		"limit": {strconv.Itoa(c.cfg.MaxSeries + 1)},
	}
	if !at.IsZero() {
		form.Set("time", strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64))
	}
	resp, err := c.send(ctx, c.cfg.Method, "api/v1/query", form)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	lock.Lock()
	defer lock.Unlock()
	return c.read(resp, lock, take)
}

func (c *Client) read(resp *http.Response, lock sync.Locker, take func(element)) error {
	body := &limitedReader{r: resp.Body, left: c.cfg.MaxResponseBytes}
	a, err := decode(body, c.cfg.MaxSeries, lock, take)
	return a.problem(resp.StatusCode, err, "vector")
}

// refused reports whether the status is an error of the query, not of the server.
func refused(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnprocessableEntity
}

// limitedReader returns an error at the limit, not EOF like io.LimitedReader.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("%w: body limit reached", ErrTooLarge)
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}
