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

// send asks an endpoint, a path below the server's URL, and returns what came. The
// body is the caller's to close, and ctx bounds the reading of it too.
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
	// The request's URL goes into logs and answers with an error, and its parameters
	// may be secret.
	if bare, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s %s: %w", method, endpoint, bare.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return resp, nil
}

// infoMark begins what Prometheus 2.48 to 2.53, and what shares its code of that
// time, lists among the warnings, and later versions as infos by themselves: that a
// counter has an unusual name, that a bucket was rounded. No series is missing then,
// and such an answer would never come without it.
const infoMark = "PromQL info: "

// serious are the warnings that may mean that series are missing.
func (a answer) serious() []string {
	return slices.DeleteFunc(slices.Clone(a.warnings), func(w string) bool { return strings.HasPrefix(w, infoMark) })
}

// problem is what is wrong with an answer of an HTTP status, which was read with an
// error or none: nil if it is whole and has a result of the type wanted; any will do
// if that is empty.
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
