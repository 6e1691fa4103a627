package prom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Family is a metric name and a set of label names that some series have. It
// says nothing about the labels' values.
type Family struct {
	Name   string
	Labels []string // sorted, without the name's own
}

// Series asks which families of series match a selector and had a sample since
// a time. Families come in the order in which the server first names a series
// of each. The answer is read series by series and may be any length up to
// MaxResponseBytes; more than MaxSeries families are too many. Errors are those
// of [Client.Query]; an answer with warnings is an [ErrPartial].
func (c *Client) Series(ctx context.Context, selector string, since time.Time) ([]Family, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := c.seriesRequest(ctx, selector, since)
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
	return c.readSeries(resp)
}

func (c *Client) seriesRequest(ctx context.Context, selector string, since time.Time) (*http.Request, error) {
	endpoint, err := url.JoinPath(c.cfg.URL, "api/v1/series")
	if err != nil {
		return nil, fmt.Errorf("%w: url: %w", ErrUnavailable, err)
	}
	form := url.Values{
		"match[]": {selector},
		"start":   {strconv.FormatFloat(float64(since.UnixMilli())/1000, 'f', 3, 64)},
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

func (c *Client) readSeries(resp *http.Response) ([]Family, error) {
	body := &limitedReader{r: resp.Body, left: c.cfg.MaxResponseBytes}
	a, families, err := decodeSeries(body, c.cfg.MaxSeries)
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, err
	case refused(resp.StatusCode):
		return nil, fmt.Errorf("%w: HTTP %d: %s", ErrBadQuery, resp.StatusCode, a.reason())
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: HTTP %d: %s", ErrUnavailable, resp.StatusCode, a.reason())
	case err != nil:
		return nil, fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
	case a.status != "success":
		return nil, fmt.Errorf("%w: status %q: %s", ErrUnavailable, a.status, a.reason())
	case len(a.warnings) > 0:
		return nil, &PartialError{Warnings: a.warnings}
	}
	return families, nil
}

func decodeSeries(r io.Reader, limit int) (a answer, families []Family, err error) {
	d := decoder{json: json.NewDecoder(r)}
	err = d.object(func(key string) error {
		switch key {
		case "status":
			return d.json.Decode(&a.status)
		case "errorType":
			return d.json.Decode(&a.errorType)
		case "error":
			return d.json.Decode(&a.message)
		case "warnings":
			return d.json.Decode(&a.warnings)
		case "data":
			var err error
			families, err = d.families(limit)
			return err
		}
		return d.skip()
	})
	return a, families, err
}

func (d *decoder) families(limit int) ([]Family, error) {
	open, err := d.json.Token()
	if err != nil || open == nil {
		return nil, err
	}
	if open != json.Delim('[') {
		return nil, fmt.Errorf("data is %v, not a list", open)
	}
	var all []Family
	met := map[string]bool{}
	for d.json.More() {
		var series map[string]string
		if err := d.json.Decode(&series); err != nil {
			return nil, err
		}
		f := Family{Name: series["__name__"]}
		for label, value := range series {
			if label != "__name__" && value != "" {
				f.Labels = append(f.Labels, label)
			}
		}
		slices.Sort(f.Labels)
		id := f.Name + "\xff" + strings.Join(f.Labels, "\xff")
		if met[id] {
			continue
		}
		if len(all) == limit {
			return nil, fmt.Errorf("%w: more than %d families of series", ErrTooLarge, limit)
		}
		met[id] = true
		all = append(all, f)
	}
	_, err = d.json.Token()
	return all, err
}
