package prom

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is the API's envelope around a vector.
type answer struct {
	status, errorType, message string
	resultType                 string
	vector                     Vector
	warnings                   []string
	// partial is VictoriaMetrics' word for "some of the storage did not answer".
	partial bool
}

// maxReason bounds, in bytes, what a server may put into our log.
const maxReason = 1000

func (a answer) reason() string {
	if a.message == "" {
		return "no reason given"
	}
	reason := strings.TrimSpace(a.errorType + " " + a.message)
	if len(reason) > maxReason {
		return strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return reason
}

// decode reads an envelope element by element, so that an answer of too many
// series is refused before it is held in memory. The fields of the
// envelope may come in any order.
func decode(r io.Reader, maxSeries int) (a answer, err error) {
	d := decoder{json: json.NewDecoder(r), maxSeries: maxSeries, seen: map[string]string{}}
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
		case "isPartial":
			return d.json.Decode(&a.partial)
		case "data":
			return d.data(&a)
		}
		return d.skip()
	})
	return a, err
}

type decoder struct {
	json      *json.Decoder
	maxSeries int
	seen      map[string]string // strings met before: label names and values repeat
	element   json.RawMessage   // of the vector, its room used again
	room      []Label           // where labels of samples go: see plain
}

func (d *decoder) data(a *answer) error {
	return d.object(func(key string) error {
		switch key {
		case "resultType":
			return d.json.Decode(&a.resultType)
		case "result":
			// A scalar's result is an array too, but not of objects. Every
			// server sends the type first; one that does not is refused, since
			// an unread result must not pass for an empty one.
			switch a.resultType {
			case "vector":
				return d.vector(a)
			case "":
				return errors.New("the result comes before its type")
			}
			return d.skip()
		}
		return d.skip()
	})
}

func (d *decoder) vector(a *answer) error {
	open, err := d.json.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('[') {
		return fmt.Errorf("result is %v, not a list", open)
	}
	for d.json.More() {
		if len(a.vector) == d.maxSeries {
			return fmt.Errorf("%w: more than %d series", ErrTooLarge, d.maxSeries)
		}
		s, err := d.sample()
		if err != nil {
			return err
		}
		a.vector = append(a.vector, s)
	}
	_, err = d.json.Token()
	return err
}

func (d *decoder) sample() (Sample, error) {
	var raw struct {
		Metric    map[string]string  `json:"metric"`
		Value     [2]json.RawMessage `json:"value"`
		Histogram json.RawMessage    `json:"histogram"`
	}
	d.element = d.element[:0]
	if err := d.json.Decode(&d.element); err != nil {
		return Sample{}, err
	}
	if s, ok := d.plain(d.element); ok {
		return s, nil
	}
	if err := json.Unmarshal(d.element, &raw); err != nil {
		return Sample{}, err
	}
	if raw.Histogram != nil {
		return Sample{}, fmt.Errorf("%w: the answer holds a native histogram", ErrBadQuery)
	}
	var seconds float64
	var text string
	if err := json.Unmarshal(raw.Value[0], &seconds); err != nil {
		return Sample{}, fmt.Errorf("sample time: %w", err)
	}
	if err := json.Unmarshal(raw.Value[1], &text); err != nil {
		return Sample{}, fmt.Errorf("sample value: %w", err)
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(value, 0) { // 1e999 parses to an infinity and an error
		return Sample{}, fmt.Errorf("sample value: %w", err)
	}
	return Sample{Labels: d.labels(raw.Metric), Value: value, Time: time.UnixMilli(int64(math.Round(seconds * 1000)))}, nil
}

func (d *decoder) labels(m map[string]string) Labels {
	ls := make(Labels, 0, len(m))
	for name, value := range m {
		if value != "" {
			ls = append(ls, Label{d.intern(name), d.intern(value)})
		}
	}
	slices.SortFunc(ls, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return ls
}

func (d *decoder) intern(s string) string {
	if known, ok := d.seen[s]; ok {
		return known
	}
	d.seen[s] = s
	return s
}

// object walks one JSON object; each must consume exactly the key's value.
func (d *decoder) object(each func(key string) error) error {
	open, err := d.json.Token()
	if err != nil || open == nil { // "data": null
		return err
	}
	if open != json.Delim('{') {
		return fmt.Errorf("expected an object, found %v", open)
	}
	for d.json.More() {
		key, err := d.json.Token()
		if err != nil {
			return err
		}
		if err := each(key.(string)); err != nil {
			return err
		}
	}
	_, err = d.json.Token()
	return err
}

func (d *decoder) skip() error {
	var ignored json.RawMessage
	return d.json.Decode(&ignored)
}
