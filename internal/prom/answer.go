package prom

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/model/labels"
)

// answer is the API's envelope around a result. client_golang's own lacks isPartial,
// decodes a result before its size is known, and is no smaller with both added.
type answer struct {
	code                       int // HTTP status
	status, errorType, message string
	warnings                   []string
	partial                    bool // VictoriaMetrics' isPartial: some of the storage did not answer
}

// decode reads an answer while it arrives, and its data by read: large answers lie
// nowhere as a whole. It stops at the first error.
//
// It is json-iterator because the autoscaler reads some 30,000 series every ten seconds:
// BenchmarkQuery.
func (a *answer) decode(body io.Reader, read reader) error {
	it, missing := jsoniter.Parse(jsoniter.ConfigDefault, body, 1<<16), true
	fields := map[string]any{"status": &a.status, "errorType": &a.errorType, "error": &a.message, "warnings": &a.warnings, "isPartial": &a.partial}
	var err error
	it.ReadObjectCB(func(it *jsoniter.Iterator, field string) bool {
		switch to := fields[field]; {
		case to != nil:
			it.ReadVal(to)
		case field == "data":
			missing, err = false, read(it)
		default:
			it.Skip()
		}
		return err == nil && it.Error == nil
	})
	if err = cmp.Or(err, it.Error); err != nil {
		switch text := err.Error(); { // the library's has parts of the answer
		case strings.Contains(text, "but found <"):
			return errors.New("it is a web page")
		case strings.Contains(text, ", error found in #"):
			return errors.New("it is empty, no JSON of Prometheus' API, or ends too early")
		}
		return err
	}
	if missing {
		return read(jsoniter.ParseString(jsoniter.ConfigDefault, "{}"))
	}
	return nil
}

// reader reads the next value. It need not read on after an error.
type reader func(*jsoniter.Iterator) error

// each calls do for each element of the list that is next, until an error.
func each(it *jsoniter.Iterator, do func() error) error {
	var err error
	it.ReadArrayCB(func(*jsoniter.Iterator) bool {
		err = do()
		return err == nil && it.Error == nil
	})
	return cmp.Or(it.Error, err)
}

// maxReason bounds a server's error message in logs, in bytes.
const maxReason = 1000

func (a *answer) reason() string {
	switch {
	case a.message != "":
	case a.code/100 == 3:
		return "a redirect, which is not followed"
	default:
		return "no reason given"
	}
	reason := strings.TrimSpace(a.errorType + " " + a.message)
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
	serious := slices.DeleteFunc(a.warnings, func(w string) bool { return strings.HasPrefix(w, infoMark) })
	if a.partial {
		serious = append(serious, "isPartial: some of the storage did not answer")
	}
	switch {
	case a.code == http.StatusBadRequest && a.status == "": // VictoriaMetrics 1.150 about a path, in plain text
		return fmt.Errorf("%w: %w: HTTP %d", ErrBadQuery, errNoEndpoint, a.code)
	case a.code == http.StatusBadRequest, a.code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: HTTP %d: %s", ErrBadQuery, a.code, a.reason())
	case a.code == http.StatusNotFound, a.code == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %w: HTTP %d: %s", ErrUnavailable, errNoEndpoint, a.code, a.reason())
	case a.code != http.StatusOK:
		return fmt.Errorf("%w: HTTP %d: %s", ErrUnavailable, a.code, a.reason())
	case err != nil && a.status == "":
		return fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
	case a.status != "success":
		return fmt.Errorf("%w: status %q: %s", ErrUnavailable, a.status, a.reason())
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrBadQuery):
		return err
	case err != nil:
		return fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
	case len(serious) > 0:
		return &PartialError{Warnings: serious}
	}
	return nil
}

// refused reports whether the answer is an [ErrRefused].
func (a *answer) refused() bool {
	switch a.code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusTooManyRequests:
		return true
	}
	return a.code/100 == 3
}

// series is an element of a vector or of a matrix. It is the next one's memory, too.
type series struct {
	labels    labels.Labels
	builder   labels.ScratchBuilder
	value     Point
	values    []Point
	valued    bool
	histogram bool
}

func (s *series) read(it *jsoniter.Iterator) error {
	s.labels = labels.EmptyLabels()
	s.values, s.valued, s.histogram = s.values[:0], false, false
	var err error
	it.ReadObjectCB(func(it *jsoniter.Iterator, field string) bool {
		switch {
		case it.ReadNil():
		case field == "metric":
			s.labels, err = readLabels(it, &s.builder)
		case field == "value":
			s.valued = true
			s.value, err = readPoint(it)
		case field == "values":
			err = each(it, func() error {
				p, err := readPoint(it)
				s.values = append(s.values, p)
				return err
			})
		case field == "histogram":
			s.histogram = true
			it.Skip()
		default:
			it.Skip()
		}
		return err == nil && it.Error == nil
	})
	return cmp.Or(it.Error, err)
}

// readLabels reads a series' labels. The builder is memory for one series after another.
func readLabels(it *jsoniter.Iterator, b *labels.ScratchBuilder) (labels.Labels, error) {
	b.Reset()
	it.ReadMapCB(func(it *jsoniter.Iterator, name string) bool {
		if value := it.ReadString(); value != "" { // an empty label is none
			b.Add(name, value)
		}
		return it.Error == nil
	})
	b.Sort()
	read := b.Labels()
	if name, twice := read.HasDuplicateLabelNames(); twice {
		return read, fmt.Errorf("a series has the label %q twice", name)
	}
	return read, it.Error
}

// readPoint reads [seconds, "value"].
func readPoint(it *jsoniter.Iterator) (p Point, err error) {
	two := it.ReadArray()
	p.Time = time.UnixMilli(int64(math.Round(it.ReadFloat64() * 1000)))
	two = it.ReadArray() && two
	text := string(it.ReadStringAsSlice())
	if two = !it.ReadArray() && two; !two && it.Error == nil {
		return p, errors.New("a value is not [seconds, \"number\"]")
	}
	if p.Value, err = strconv.ParseFloat(text, 64); err != nil {
		err = fmt.Errorf("the value %.40q is no number", text)
	}
	return p, cmp.Or(it.Error, err)
}

// readResult reads a result of a kind, vector or matrix, and calls take for each element. All
// servers send the kind first.
func readResult(kind string, most int, take func(*series) error) reader {
	return func(it *jsoniter.Iterator) error {
		var is string
		var one series
		err := errors.New("the answer has no result")
		it.ReadObjectCB(func(it *jsoniter.Iterator, field string) bool {
			switch {
			case field == "resultType":
				is = it.ReadString()
			case field == "result" && is == kind:
				err = readList(it, most, func() error {
					if err := one.read(it); err != nil {
						return err
					}
					return take(&one)
				})
				return err == nil
			default:
				it.Skip()
			}
			return it.Error == nil
		})
		if it.Error == nil && is != kind {
			return fmt.Errorf("%w: the answer is a %q, not a %s", ErrBadQuery, is, kind)
		}
		return cmp.Or(it.Error, err)
	}
}

// readList calls take for each element of a list, one at a time, so that a list with
// too many is never in memory.
func readList(it *jsoniter.Iterator, most int, take func() error) error {
	if next := it.WhatIsNext(); next != jsoniter.ArrayValue && it.Error == nil {
		return errors.New("the result is no list")
	}
	n := 0
	return each(it, func() error {
		if n++; n > most {
			return fmt.Errorf("%w: more than %d series", ErrTooLarge, most)
		}
		return take()
	})
}

func (v *Vector) read(most int) reader {
	return readResult("vector", most, func(s *series) error {
		switch {
		case s.histogram:
			return fmt.Errorf("%w: the answer holds a native histogram", ErrBadQuery)
		case !s.valued:
			return errors.New("an element has no value")
		}
		*v = append(*v, Sample{Labels: s.labels, Value: s.value.Value, Time: s.value.Time})
		return nil
	})
}

// readFamilies reads a list of series into all.
func readFamilies(all *[]Family, most int) reader {
	met := map[string]bool{}
	return func(it *jsoniter.Iterator) error {
		var builder labels.ScratchBuilder
		return readList(it, math.MaxInt, func() error {
			one, err := readLabels(it, &builder)
			if err != nil {
				return err
			}
			f := Family{Name: one.Get(labels.MetricName)}
			one.Range(func(l labels.Label) {
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
		})
	}
}
