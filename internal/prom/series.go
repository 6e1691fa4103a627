package prom

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Family is a metric name and a set of label names that some series have, without
// the labels' values.
type Family struct {
	Name   string
	Labels []string // sorted, without the name's own
}

// Series returns the families of series that match a selector and had a sample
// since a time, in the order of each family's first series in the answer. The
// answer is read series by series, up to MaxResponseBytes; more than MaxSeries
// families are an error. Errors are those of [Client.Query]; an answer with
// warnings is an [ErrPartial].
func (c *Client) Series(ctx context.Context, selector string, since time.Time) ([]Family, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	resp, err := c.send(ctx, c.cfg.Method, "api/v1/series", url.Values{
		"match[]": {selector},
		"start":   {strconv.FormatFloat(float64(since.UnixMilli())/1000, 'f', 3, 64)},
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return c.readSeries(resp)
}

func (c *Client) readSeries(resp *http.Response) ([]Family, error) {
	body := &limitedReader{r: resp.Body, left: c.cfg.MaxResponseBytes}
	a, families, err := decodeSeries(body, c.cfg.MaxSeries)
	if err := a.problem(resp.StatusCode, err, ""); err != nil {
		return nil, err
	}
	return families, nil
}

func decodeSeries(r io.Reader, limit int) (a answer, families []Family, err error) {
	var d decoder
	a, err = d.envelope(r, func(*answer) (err error) {
		families, err = d.families(limit)
		return err
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
