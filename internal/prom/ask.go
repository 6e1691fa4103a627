package prom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// send sends a request to an endpoint, a path below the server's URL. The caller
// closes the body; ctx bounds the reading of it too.
func (c *Client) send(ctx context.Context, method, path string, form url.Values) (*http.Response, error) {
	endpoint, err := url.JoinPath(c.cfg.URL, path)
	if err != nil {
		return nil, fmt.Errorf("%w: url: %w", ErrUnavailable, err)
	}
	for name, value := range c.cfg.Parameters {
		form.Set(name, value)
	}
	target, body := endpoint, io.Reader(strings.NewReader(form.Encode()))
	if method == http.MethodGet {
		body = nil
		if len(form) > 0 {
			target += "?" + form.Encode()
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
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
	client, err := c.transport.current()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	resp, err := client.Do(req)
	// Errors of the request contain its URL and go into logs and answers; its
	// parameters may be secret.
	if bare, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s %s: %w", method, endpoint, bare.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return resp, nil
}

// infoMark begins infos that Prometheus 2.48 to 2.53, and servers with its code of
// that time, list among the warnings: a counter has an unusual name, a bucket was
// rounded. No series is missing then, and the query would never be without it.
// Later versions list infos separately.
const infoMark = "PromQL info: "

// serious are the warnings that may mean missing series.
func (a answer) serious() []string {
	return slices.DeleteFunc(slices.Clone(a.warnings), func(w string) bool { return strings.HasPrefix(w, infoMark) })
}

// problem returns an answer's error, given its HTTP status and the error of reading
// it: nil if it is complete and has a result of the type wanted; "" accepts any.
func (a answer) problem(status int, err error, wanted string) error {
	switch {
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrBadQuery):
		return err
	case refused(status):
		return fmt.Errorf("%w: HTTP %d: %s", ErrBadQuery, status, a.reason())
	case status != http.StatusOK:
		return fmt.Errorf("%w: HTTP %d: %s", ErrUnavailable, status, a.reason())
	case err != nil:
		return fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
	case a.status != "success":
		return fmt.Errorf("%w: status %q: %s", ErrUnavailable, a.status, a.reason())
	case wanted != "" && a.resultType != wanted:
		return fmt.Errorf("%w: the answer is a %q, not a %s", ErrBadQuery, a.resultType, wanted)
	case len(a.serious()) > 0:
		return &PartialError{Warnings: a.serious()}
	case a.partial:
		return &PartialError{Warnings: []string{"isPartial: some of the storage did not answer"}}
	}
	return nil
}
