package prom

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Line is the values of one series over time.
type Line struct {
	Labels Labels
	Points []Point // ascending in time, with gaps where there is no value
}

// Point is a value at a time.
type Point struct {
	Time  time.Time
	Value float64
}

// maxPoints is the maximum number of points per series, which is Prometheus' own.
const maxPoints = 11_000

// Range evaluates promql at every step from one time to another. Errors are those
// of [Client.Query]; an answer with warnings is an [ErrPartial]. More than 11,000
// steps are an [ErrBadQuery].
func (c *Client) Range(ctx context.Context, promql string, from, to time.Time, step time.Duration) ([]Line, error) {
	if step <= 0 || to.Before(from) || to.Sub(from)/step >= maxPoints {
		return nil, fmt.Errorf("%w: %s in steps of %s: want at most %d steps", ErrBadQuery, to.Sub(from), step, maxPoints)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	seconds := func(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }
	resp, err := c.send(ctx, c.cfg.Method, "api/v1/query_range", url.Values{
		"query": {promql}, "timeout": {c.cfg.Timeout.String()},
		"start": {seconds(float64(from.UnixMilli()) / 1000)}, "end": {seconds(float64(to.UnixMilli()) / 1000)}, "step": {seconds(step.Seconds())},
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return c.readRange(resp)
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
			Metric map[string]string `json:"metric"`
			Values points            `json:"values"`
		} `json:"result"`
	} `json:"data"`
}

func (c *Client) readRange(resp *http.Response) ([]Line, error) {
	body := &limitedReader{r: resp.Body, left: c.cfg.MaxResponseBytes}
	var a rangeAnswer
	err := json.NewDecoder(body).Decode(&a)
	envelope := answer{
		status: a.Status, errorType: a.ErrorType, message: a.Error,
		resultType: a.Data.ResultType, warnings: a.Warnings, partial: a.IsPartial,
	}
	if err := envelope.problem(resp.StatusCode, err, "matrix"); err != nil {
		return nil, err
	}
	if len(a.Data.Result) > c.cfg.MaxSeries {
		return nil, fmt.Errorf("%w: more than %d series", ErrTooLarge, c.cfg.MaxSeries)
	}
	lines := make([]Line, len(a.Data.Result))
	for i, r := range a.Data.Result {
		lines[i] = Line{Labels: FromMap(r.Metric), Points: r.Values}
	}
	return lines, nil
}
