package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Bounds of the requests to an API server.
const (
	pageSize   = 500
	maxObjects = 20_000 // of one kind
	maxCalls   = 400
	maxBytes   = 128 << 20 // of one page
)

// kube is a client that can only get.
type kube struct {
	http  *http.Client
	base  *url.URL
	agent string

	mu    sync.Mutex
	calls int
	now   time.Time // the API server's clock at local
	local time.Time
}

func newKube(cfg *rest.Config) (*kube, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to the API server: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to the API server: %w", err)
	}
	return &kube{http: client, base: base, agent: cfg.UserAgent}, nil
}

// status is an answer other than 200.
type status struct {
	code    int
	message string
}

func (s *status) Error() string { return fmt.Sprintf("HTTP %d: %s", s.code, s.message) }

var errCalls = fmt.Errorf("the bound of %d calls is reached", maxCalls)

// get reads one path. An answer other than 200 is a *status.
func (k *kube) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	if err := k.count(); err != nil {
		return nil, err
	}
	u := *k.base
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", k.agent)
	asked := time.Now()
	resp, err := k.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the API server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	k.clock(resp.Header.Get("Date"), asked)
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", path, err)
	case len(raw) > maxBytes:
		return nil, fmt.Errorf("reading %s: a page of more than %d bytes", path, maxBytes)
	case resp.StatusCode != http.StatusOK:
		return nil, &status{resp.StatusCode, message(raw)}
	}
	return raw, nil
}

func (k *kube) count() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.calls >= maxCalls {
		return errCalls
	}
	k.calls++
	return nil
}

// clock keeps the time of the first answer. The header has whole seconds, so the middle
// of that second is taken.
func (k *kube) clock(header string, asked time.Time) {
	at, err := http.ParseTime(header)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil || !k.now.IsZero() {
		return
	}
	took := time.Since(asked)
	k.now, k.local = at.Add(time.Second/2), asked.Add(took/2)
}

// message returns the API server's message of an answer.
func message(raw []byte) string {
	var s struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &s) == nil && s.Message != "" {
		return s.Message
	}
	return string(raw[:min(len(raw), 200)])
}

// sink takes a page, and returns the token of the next one and its number of objects.
type sink func(page []byte) (next string, objects int, err error)

// page is a list without its items.
type page[T any] struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

// into collects items for which keep is true; nil keeps all.
func into[T any](all *[]*T, keep func(*T) bool) sink {
	return func(raw []byte) (string, int, error) {
		var p page[T]
		if err := json.Unmarshal(raw, &p); err != nil {
			return "", 0, fmt.Errorf("reading a list: %w", err)
		}
		for i := range p.Items {
			if keep == nil || keep(&p.Items[i]) {
				*all = append(*all, &p.Items[i])
			}
		}
		return p.Metadata.Continue, len(p.Items), nil
	}
}

// list reads all pages of a list, up to the bound.
func (k *kube) list(ctx context.Context, path string, query url.Values, take sink) error {
	objects, next := 0, ""
	for {
		q := url.Values{"limit": {fmt.Sprint(pageSize)}}
		for name, v := range query {
			q[name] = v
		}
		if next != "" {
			q.Set("continue", next)
		}
		raw, err := k.get(ctx, path, q)
		if err != nil {
			return err
		}
		var n int
		if next, n, err = take(raw); err != nil {
			return err
		}
		objects += n
		if next == "" {
			return nil
		}
		if objects >= maxObjects {
			return errTooMany
		}
	}
}

var errTooMany = fmt.Errorf("only the first %d were read", maxObjects)

// code of an answer, 0 for none.
func code(err error) int {
	var s *status
	if errors.As(err, &s) {
		return s.code
	}
	return 0
}
