package prom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Client queries one server. It is safe for concurrent use.
type Client struct {
	cfg       Config
	endpoint  string
	transport *transport
}

// New checks the configuration, TLS files included, and returns a client. It
// does not contact the server.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("prometheus configuration: %w", err)
	}
	cfg = cfg.withDefaults()
	endpoint, err := url.JoinPath(cfg.URL, "api/v1/query")
	if err != nil {
		return nil, fmt.Errorf("prometheus configuration: url: %w", err)
	}
	t := &transport{cfg: cfg}
	if _, err := t.current(); err != nil {
		return nil, fmt.Errorf("prometheus configuration: %w", err)
	}
	return &Client{cfg: cfg, endpoint: endpoint, transport: t}, nil
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

// Each is Query for large answers: no vector is made, but take is given each
// element as it arrives. Its labels, pairs of name and value in order of name
// and none of them empty, hold until take returns. After an error, all that
// was taken is to be thrown away. turn is held while the answer is worked on,
// though not while the server is waited for: queries that share one leave
// processors free for other things.
func (c *Client) Each(ctx context.Context, promql string, at time.Time, turn sync.Locker, take func(labels [][2][]byte, value float64, at time.Time)) error {
	return c.each(ctx, promql, at, turn, func(e element) { take(e.labels, e.value, e.at) })
}

func (c *Client) each(ctx context.Context, promql string, at time.Time, turn sync.Locker, take func(element)) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := c.request(ctx, promql, at)
	if err != nil {
		return err
	}
	client, err := c.transport.current()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, c.bare(err))
	}
	defer func() { _ = resp.Body.Close() }()
	turn.Lock()
	defer turn.Unlock()
	return c.read(resp, turn, take)
}

func (c *Client) request(ctx context.Context, promql string, at time.Time) (*http.Request, error) {
	form := url.Values{
		"query":   {promql},
		"timeout": {c.cfg.Timeout.String()},
		// One more than we accept, so that a cut answer is seen as too large.
		"limit": {strconv.Itoa(c.cfg.MaxSeries + 1)},
	}
	for name, value := range c.cfg.Parameters {
		form.Set(name, value)
	}
	if !at.IsZero() {
		form.Set("time", strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64))
	}
	target, body := c.endpoint, io.Reader(strings.NewReader(form.Encode()))
	if c.cfg.Method == http.MethodGet {
		target, body = target+"?"+form.Encode(), nil
	}
	req, err := http.NewRequestWithContext(ctx, c.cfg.Method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadQuery, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", "application/json")
	if err := c.cfg.authorize(req); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return req, nil
}

// bare takes the request's URL out of an error: it goes into logs and answers,
// and its parameters may be secret.
func (c *Client) bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s %s: %w", c.cfg.Method, c.endpoint, wrapped.Err)
	}
	return err
}

func (c *Client) read(resp *http.Response, turn sync.Locker, take func(element)) error {
	body := &limitedReader{r: resp.Body, left: c.cfg.MaxResponseBytes}
	a, err := decode(body, c.cfg.MaxSeries, turn, take)
	switch {
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrBadQuery):
		return err
	case refused(resp.StatusCode):
		return fmt.Errorf("%w: HTTP %d: %s", ErrBadQuery, resp.StatusCode, a.reason())
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: HTTP %d: %s", ErrUnavailable, resp.StatusCode, a.reason())
	case err != nil:
		return fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
	case a.status != "success":
		return fmt.Errorf("%w: status %q: %s", ErrUnavailable, a.status, a.reason())
	case a.resultType != "vector":
		return fmt.Errorf("%w: the answer is a %q, not a vector", ErrBadQuery, a.resultType)
	case len(a.warnings) > 0:
		return &PartialError{Warnings: a.warnings}
	case a.partial:
		return &PartialError{Warnings: []string{"isPartial: some of the storage did not answer"}}
	}
	return nil
}

// refused says whether the status blames the query rather than the server.
func refused(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusUnprocessableEntity
}

// limitedReader fails instead of pretending that the stream ended.
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
