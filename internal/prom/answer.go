package prom

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/model/labels"
)

// answer is the API's envelope around a result. client_golang's own lacks isPartial
// and decodes a result before its size is known. Extending it would not be shorter.
type answer struct {
	code                       int    // HTTP status
	text                       []byte // of an error, how its body begins
	status, errorType, message string
	warnings                   []string
	partial                    bool // VictoriaMetrics' isPartial: some of the storage did not answer
}

// reader reads the next value. What is wrong with it is the iterator's Error.
type reader func(*jsoniter.Iterator)

// decode reads an answer while it arrives, its data with read, so a large answer
// is never in memory as a whole. It stops at the first error.
//
// It is json-iterator because the autoscaler reads some 30,000 series every ten seconds:
// BenchmarkQuery.
func (a *answer) decode(body io.Reader, read reader) error {
	it, missing := jsoniter.Parse(jsoniter.ConfigDefault, body, 1<<16), true
	fields := map[string]any{"status": &a.status, "errorType": &a.errorType, "error": &a.message, "warnings": &a.warnings, "isPartial": &a.partial}
	it.ReadObjectCB(func(it *jsoniter.Iterator, field string) bool {
		switch to := fields[field]; {
		case to != nil:
			it.ReadVal(to)
		case field == "data":
			missing = false
			read(it)
		default:
			it.Skip()
		}
		return it.Error == nil
	})
	if it.Error == nil && missing {
		it = jsoniter.ParseString(jsoniter.ConfigDefault, "{}")
		read(it)
	}
	if it.Error == nil {
		return nil
	}
	switch text := it.Error.Error(); { // the library's text repeats parts of the answer
	case strings.Contains(text, "but found <"):
		return errors.New("it is a web page")
	case strings.Contains(text, ", error found in #"):
		return errors.New("it is empty, no JSON of Prometheus' API, or ends too early")
	}
	return it.Error
}

// maxReason bounds a server's error message in logs, in bytes.
const maxReason = 1000

// maxText is how much of an error without a message is read for its first line, in bytes.
const maxText = 300

func (a *answer) reason() string {
	switch {
	case a.message != "":
	case a.code/100 == 3:
		return "a redirect, which is not followed"
	default:
		return a.plain()
	}
	reason := strings.TrimSpace(a.errorType + " " + a.message)
	if len(reason) > maxReason {
		return strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return reason
}

// plain returns the first line of an error that is no answer of Prometheus' API: of a proxy, of Mimir ("no org
// id"), of VictoriaMetrics about a path. A server may repeat the address, whose parameters may be secret.
func (a *answer) plain() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(a.text)), "\n")
	line, _, _ = strings.Cut(line, "?")
	line = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, line))
	if line == "" || strings.HasPrefix(line, "<") {
		return "no reason given"
	}
	return line
}

// infoMark begins infos that Prometheus 2.48 to 2.53, and servers with its code of
// that time, list among the warnings: a counter has an unusual name, a bucket was
// rounded. Such an answer is complete, and the same query always has the info.
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
	case a.code == http.StatusBadRequest, a.code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: HTTP %d: %s", ErrBadQuery, a.code, a.reason())
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

// series is an element of a vector or of a matrix. Its memory is reused for the next
// element.
type series struct {
	labels    labels.Labels
	builder   labels.ScratchBuilder
	value     Point // the zero time means no value
	values    []Point
	histogram bool
}

func (s *series) read(it *jsoniter.Iterator) {
	*s = series{builder: s.builder, values: s.values[:0]}
	it.ReadObjectCB(func(it *jsoniter.Iterator, field string) bool {
		switch {
		case it.ReadNil():
		case field == "metric":
			s.labels = readLabels(it, &s.builder)
		case field == "value":
			s.value = readPoint(it)
		case field == "values":
			it.ReadArrayCB(func(it *jsoniter.Iterator) bool {
				s.values = append(s.values, readPoint(it))
				return it.Error == nil
			})
		case field == "histogram":
			s.histogram = true
			it.Skip()
		default:
			it.Skip()
		}
		return it.Error == nil
	})
}

// readLabels reads a series' labels. The builder's memory is reused from one series to
// the next.
func readLabels(it *jsoniter.Iterator, b *labels.ScratchBuilder) labels.Labels {
	b.Reset()
	it.ReadMapCB(func(it *jsoniter.Iterator, name string) bool {
		if value := it.ReadString(); value != "" { // an empty label is none
			b.Add(name, value)
		}
		return it.Error == nil
	})
	b.Sort()
	read := b.Labels()
	if name, twice := read.HasDuplicateLabelNames(); twice && it.Error == nil {
		it.Error = fmt.Errorf("a series has the label %q twice", name)
	}
	return read
}

// readPoint reads [seconds, "value"].
func readPoint(it *jsoniter.Iterator) (p Point) {
	two := it.ReadArray()
	p.Time = time.UnixMilli(int64(math.Round(it.ReadFloat64() * 1000)))
	two = it.ReadArray() && two
	text := string(it.ReadStringAsSlice())
	two = !it.ReadArray() && two
	value, err := strconv.ParseFloat(text, 64)
	switch p.Value = value; {
	case it.Error != nil:
	case !two:
		it.Error = errors.New("a value is not [seconds, \"number\"]")
	case err != nil:
		it.Error = fmt.Errorf("the value %.40q is not a number", text)
	}
	return p
}

// readResult reads a result of a kind, vector or matrix, and calls take for each element. Servers
// send the kind first; a proxy that sorts the fields sends it last.
func readResult(kind string, most int, take func(*series) error) reader {
	return func(it *jsoniter.Iterator) {
		is, missing := "", true
		var one series
		it.ReadObjectCB(func(it *jsoniter.Iterator, field string) bool {
			switch {
			case field == "resultType":
				is = it.ReadString()
			case field == "result" && (is == kind || is == ""):
				missing = false
				readList(it, most, func() {
					if one.read(it); it.Error == nil {
						it.Error = take(&one)
					}
				})
			default:
				it.Skip()
			}
			return it.Error == nil
		})
		switch {
		case it.Error != nil:
		case is != kind:
			it.Error = fmt.Errorf("%w: the answer is a %q, not a %s", ErrBadQuery, is, kind)
		case missing:
			it.Error = errors.New("the answer has no result")
		}
	}
}

// readList calls take for each element of a list, one at a time, so that a list with
// too many is never in memory.
func readList(it *jsoniter.Iterator, most int, take func()) {
	if next := it.WhatIsNext(); next != jsoniter.ArrayValue && it.Error == nil {
		it.Error = errors.New("the result is not a list")
		return
	}
	n := 0
	it.ReadArrayCB(func(*jsoniter.Iterator) bool {
		if n++; n > most {
			it.Error = fmt.Errorf("%w: more than %d series", ErrTooLarge, most)
			return false
		}
		take()
		return it.Error == nil
	})
}

func (v *Vector) read(most int) reader {
	return readResult("vector", most, func(s *series) error {
		switch {
		case s.histogram:
			return fmt.Errorf("%w: the answer holds a native histogram", ErrBadQuery)
		case s.value.Time.IsZero():
			return errors.New("an element has no value")
		}
		*v = append(*v, Sample{Labels: s.labels, Value: s.value.Value, Time: s.value.Time})
		return nil
	})
}

// readFamilies reads a list of series into all.
func readFamilies(all *[]Family, most int) reader {
	met := map[string]bool{}
	return func(it *jsoniter.Iterator) {
		var builder labels.ScratchBuilder
		readList(it, math.MaxInt, func() {
			one := readLabels(it, &builder)
			f := Family{Name: one.Get(labels.MetricName)}
			one.Range(func(l labels.Label) {
				if l.Name != labels.MetricName {
					f.Labels = append(f.Labels, l.Name)
				}
			})
			switch id := f.Name + "\xff" + strings.Join(f.Labels, "\xff"); {
			case it.Error != nil || met[id]:
			case len(*all) == most:
				it.Error = fmt.Errorf("%w: more than %d families of series", ErrTooLarge, most)
			default:
				met[id] = true
				*all = append(*all, f)
			}
		})
	}
}
