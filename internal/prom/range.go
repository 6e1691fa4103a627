package prom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Line is the values of one series over time.
type Line struct {
	Labels Labels
	Points []Point // ascending in time, with holes where there was nothing
}

// Point is a value at a time.
type Point struct {
	Time  time.Time
	Value float64
}

// maxPoints is the most points a series may have, which is Prometheus' own bound.
const maxPoints = 11_000

// Range evaluates promql at every step from a time to another. Errors are those of
// [Client.Query]; an answer with warnings is an [ErrPartial]. Asking for more than
// 11,000 steps is an [ErrBadQuery].
func (c *Client) Range(ctx context.Context, promql string, from, to time.Time, step time.Duration) ([]Line, error) {
	if step <= 0 || to.Before(from) || to.Sub(from)/step >= maxPoints {
		return nil, fmt.Errorf("%w: %s in steps of %s: want at most %d steps", ErrBadQuery, to.Sub(from), step, maxPoints)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := c.rangeRequest(ctx, promql, from, to, step)
	if err != nil {
		return nil, err
	}
	client, err := c.transport.current()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, c.bare(err))
	}
	defer func() { _ = resp.Body.Close() }()
	return c.readRange(resp)
}

func (c *Client) rangeRequest(ctx context.Context, promql string, from, to time.Time, step time.Duration) (*http.Request, error) {
	endpoint, err := url.JoinPath(c.cfg.URL, "api/v1/query_range")
	if err != nil {
		return nil, fmt.Errorf("%w: url: %w", ErrUnavailable, err)
	}
	seconds := func(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }
	form := url.Values{
		"query": {promql}, "timeout": {c.cfg.Timeout.String()},
		"start": {seconds(float64(from.UnixMilli()) / 1000)}, "end": {seconds(float64(to.UnixMilli()) / 1000)}, "step": {seconds(step.Seconds())},
	}
	for name, value := range c.cfg.Parameters {
		form.Set(name, value)
	}
	target, body := endpoint, io.Reader(strings.NewReader(form.Encode()))
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

// rangeAnswer is the API's envelope around a matrix.
type rangeAnswer struct {
	Status    string   `json:"status"`
	ErrorType string   `json:"errorType"`
	Error     string   `json:"error"`
	Warnings  []string `json:"warnings"`
	IsPartial bool     `json:"isPartial"`
	Data      struct {
		ResultType string `json:"resultType"`
		Result     []struct {
			Metric map[string]string    `json:"metric"`
			Values [][2]json.RawMessage `json:"values"`
		} `json:"result"`
	} `json:"data"`
}

func (c *Client) readRange(resp *http.Response) ([]Line, error) {
	body := &limitedReader{r: resp.Body, left: c.cfg.MaxResponseBytes}
	var a rangeAnswer
	err := json.NewDecoder(body).Decode(&a)
	reason := answer{errorType: a.ErrorType, message: a.Error}.reason()
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, err
	case refused(resp.StatusCode):
		return nil, fmt.Errorf("%w: HTTP %d: %s", ErrBadQuery, resp.StatusCode, reason)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: HTTP %d: %s", ErrUnavailable, resp.StatusCode, reason)
	case err != nil:
		return nil, fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
	case a.Status != "success":
		return nil, fmt.Errorf("%w: status %q: %s", ErrUnavailable, a.Status, reason)
	case a.Data.ResultType != "matrix":
		return nil, fmt.Errorf("%w: the answer is a %q, not a matrix", ErrBadQuery, a.Data.ResultType)
	case len(a.Warnings) > 0:
		return nil, &PartialError{Warnings: a.Warnings}
	case a.IsPartial:
		return nil, &PartialError{Warnings: []string{"isPartial: some of the storage did not answer"}}
	case len(a.Data.Result) > c.cfg.MaxSeries:
		return nil, fmt.Errorf("%w: more than %d series", ErrTooLarge, c.cfg.MaxSeries)
	}
	lines := make([]Line, len(a.Data.Result))
	for i, r := range a.Data.Result {
		lines[i].Labels = FromMap(r.Metric)
		for _, raw := range r.Values {
			p, err := point(raw)
			if err != nil {
				return nil, fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
			}
			lines[i].Points = append(lines[i].Points, p)
		}
	}
	return lines, nil
}

func point(raw [2]json.RawMessage) (Point, error) {
	var seconds float64
	var text string
	if err := json.Unmarshal(raw[0], &seconds); err != nil {
		return Point{}, fmt.Errorf("sample time: %w", err)
	}
	if err := json.Unmarshal(raw[1], &text); err != nil {
		return Point{}, fmt.Errorf("sample value: %w", err)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(value, 0) {
		return Point{}, fmt.Errorf("sample value: %w", err)
	}
	return Point{Time: time.UnixMilli(int64(math.Round(seconds * 1000))), Value: value}, nil
}
