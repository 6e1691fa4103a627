package prom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// answer is the API's envelope around a result. client_golang's own lacks isPartial,
// decodes a result before its size is known, and is no smaller with both added.
type answer struct {
	code      int // HTTP status
	Status    string
	ErrorType string
	Message   string `json:"error"`
	Warnings  []string
	// Partial is VictoriaMetrics': some of the storage did not answer.
	Partial bool `json:"isPartial"`
	Data    reader
}

// reader reads a part of an answer where it lies, without a copy: a report's answers
// are large.
type reader struct {
	read func(text []byte) error
	done bool
	err  error
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *reader) UnmarshalJSON(text []byte) error {
	r.done, r.err = true, r.read(text)
	return nil
}

// maxReason bounds a server's error message in logs, in bytes.
const maxReason = 1000

func (a *answer) reason() string {
	switch {
	case a.Message != "":
	case a.code/100 == 3:
		return "a redirect, which is not followed"
	default:
		return "no reason given"
	}
	reason := strings.TrimSpace(a.ErrorType + " " + a.Message)
	if len(reason) > maxReason {
		return strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return reason
}

// infoMark begins infos that Prometheus 2.48 to 2.53, and servers with its code of
// that time, list among the warnings: a counter has an unusual name, a bucket was
// rounded. No series is missing then, and the query would never be without it.
// Later versions list infos separately.
const infoMark = "PromQL info: "

// problem returns the error of an answer, given the error of reading its body or
// result; nil if it is complete.
func (a *answer) problem(err error) error {
	serious := slices.DeleteFunc(a.Warnings, func(w string) bool { return strings.HasPrefix(w, infoMark) })
	if a.Partial {
		serious = append(serious, "isPartial: some of the storage did not answer")
	}
	switch {
	case a.code == http.StatusBadRequest && a.Status == "": // VictoriaMetrics 1.150 about a path, in plain text
		return fmt.Errorf("%w: %w: HTTP %d", ErrBadQuery, errNoEndpoint, a.code)
	case a.code == http.StatusBadRequest, a.code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: HTTP %d: %s", ErrBadQuery, a.code, a.reason())
	case a.code == http.StatusNotFound, a.code == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %w: HTTP %d: %s", ErrUnavailable, errNoEndpoint, a.code, a.reason())
	case a.code != http.StatusOK:
		return fmt.Errorf("%w: HTTP %d: %s", ErrUnavailable, a.code, a.reason())
	case err != nil && a.Status == "":
		return fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
	case a.Status != "success":
		return fmt.Errorf("%w: status %q: %s", ErrUnavailable, a.Status, a.reason())
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrBadQuery):
		return err
	case err != nil:
		return fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
	case len(serious) > 0:
		return &PartialError{Warnings: serious}
	}
	return nil
}

// point is [seconds, "value"].
type point Point

// UnmarshalJSON implements json.Unmarshaler.
func (p *point) UnmarshalJSON(text []byte) error {
	seconds, value, _ := bytes.Cut(bytes.Trim(text, "[] \n\t\r"), []byte(","))
	at, err := strconv.ParseFloat(string(bytes.TrimSpace(seconds)), 64)
	v, bad := strconv.ParseFloat(strings.Trim(string(value), "\" \n\t\r"), 64)
	if err != nil || bad != nil {
		return fmt.Errorf("the value %s is not [seconds, \"number\"]", text)
	}
	*p = point{Time: time.UnixMilli(int64(math.Round(at * 1000))), Value: v}
	return nil
}

// points are the values of a series. A report reads millions of them, so a list is
// one allocation.
type points []Point

// UnmarshalJSON implements json.Unmarshaler.
func (p *points) UnmarshalJSON(text []byte) error {
	out := make(points, 0, max(1, bytes.Count(text, []byte("["))-1))
	for rest := text[1:]; ; {
		_, after, more := bytes.Cut(rest, []byte("["))
		one, left, closed := bytes.Cut(after, []byte("]"))
		if !more || !closed {
			if end := bytes.TrimSpace(rest); string(end) != "]" {
				return fmt.Errorf("the values end with %.20q", end)
			}
			*p = out
			return nil
		}
		var each point
		if err := each.UnmarshalJSON(one); err != nil {
			return err
		}
		out, rest = append(out, Point(each)), left
	}
}

// series is an element of a vector or of a matrix.
type series struct {
	Metric    map[string]string
	Value     *point
	Values    points
	Histogram json.RawMessage
}

// result reads a result of a kind, vector or matrix, and calls take for each element.
func result(kind string, most int, take func(series) error) func([]byte) error {
	return func(text []byte) error {
		data := struct {
			ResultType string
			Result     reader
		}{Result: reader{read: func(text []byte) error { return list(text, most, take) }}}
		if err := json.Unmarshal(text, &data); err != nil {
			return err
		}
		switch {
		case data.ResultType != kind:
			return fmt.Errorf("%w: the answer is a %q, not a %s", ErrBadQuery, data.ResultType, kind)
		case !data.Result.done:
			return errors.New("the answer has no result")
		}
		return data.Result.err
	}
}

// list calls take for each element of a JSON list, one at a time, so that a list with
// too many is never in memory.
func list[T any](text []byte, most int, take func(T) error) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return errors.Join(errors.New("the result is no list"), err)
	}
	for n := 0; d.More(); n++ {
		if n == most {
			return fmt.Errorf("%w: more than %d series", ErrTooLarge, most)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		if err := take(one); err != nil {
			return err
		}
	}
	return nil
}

func (v *Vector) read(most int) func([]byte) error {
	return result("vector", most, func(s series) error {
		switch {
		case s.Histogram != nil:
			return fmt.Errorf("%w: the answer holds a native histogram", ErrBadQuery)
		case s.Value == nil:
			return errors.New("an element has no value")
		}
		*v = append(*v, Sample{Labels: FromMap(s.Metric), Value: s.Value.Value, Time: s.Value.Time})
		return nil
	})
}

// readFamilies reads a list of series into all.
func readFamilies(all *[]Family, most int) func([]byte) error {
	met := map[string]bool{}
	take := func(series map[string]string) error {
		f := Family{Name: series[labels.MetricName]}
		FromMap(series).Range(func(l labels.Label) {
			if l.Name != labels.MetricName {
				f.Labels = append(f.Labels, l.Name)
			}
		})
		id := f.Name + "\xff" + strings.Join(f.Labels, "\xff")
		if met[id] {
			return nil
		}
		if len(*all) == most {
			return fmt.Errorf("%w: more than %d families of series", ErrTooLarge, most)
		}
		met[id] = true
		*all = append(*all, f)
		return nil
	}
	return func(text []byte) error { return list(text, math.MaxInt, take) }
}
