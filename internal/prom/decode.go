package prom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
)

// answer is the API's envelope around a result.
type answer struct {
	status, errorType, message string
	resultType                 string
	warnings                   []string
	// partial is VictoriaMetrics' isPartial: some of the storage did not answer.
	partial bool
}

// maxReason bounds a server's error message in logs, in bytes.
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

// decode reads an answer and passes each element of its vector to take, so that
// an answer with too many series is rejected before it is in memory. After an
// error the elements taken are invalid. The caller holds lock; decode unlocks it
// while waiting for the server.
func decode(r io.Reader, maxSeries int, lock sync.Locker, take func(element)) (answer, error) {
	d := decoder{maxSeries: maxSeries, take: take}
	s := &scanner{r: r, lock: lock}
	head, ok := s.opens()
	if ok {
		if err := s.elements(d.next); err != nil {
			return answer{}, err
		}
	}
	if s.err != nil && !errors.Is(s.err, io.EOF) {
		return answer{}, s.err
	}
	// The rest, without the vector's elements, is plain JSON.
	rest := []io.Reader{strings.NewReader(head), bytes.NewReader(s.rest())}
	if s.err == nil {
		rest = append(rest, r)
	}
	return d.envelope(io.MultiReader(rest...), d.data)
}

// envelope reads an answer's fields, in any order; data reads its data field.
func (d *decoder) envelope(r io.Reader, data func(*answer) error) (a answer, err error) {
	d.json = json.NewDecoder(r)
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
			return data(&a)
		}
		return d.skip()
	})
	return a, err
}

type decoder struct {
	json      *json.Decoder
	maxSeries int
	take      func(element)
	count     int     // elements taken
	read      element // the last one; its memory is reused
	stamp     []byte  // text of its time
}

// next takes the element that text begins with; 0 if text has only a part of it.
func (d *decoder) next(text []byte) (used int, err error) {
	if d.count == d.maxSeries {
		return 0, fmt.Errorf("%w: more than %d series", ErrTooLarge, d.maxSeries)
	}
	used, v := d.plain(text)
	if v == short {
		return 0, nil
	}
	if v == odd {
		whole := object(text)
		if whole == nil {
			return 0, nil
		}
		if err := d.general(whole); err != nil {
			return 0, err
		}
		used = len(whole)
	}
	d.count++
	d.take(d.read)
	return used, nil
}

func (d *decoder) data(a *answer) error {
	return d.object(func(key string) error {
		switch key {
		case "resultType":
			return d.json.Decode(&a.resultType)
		case "result":
			// A scalar's result is an array too, but not of objects. Every
			// server sends the type first; an answer without it is rejected,
			// since an unread result must not count as an empty one.
			switch a.resultType {
			case "vector":
				return d.vector()
			case "":
				return errors.New("the result comes before its type")
			}
			return d.skip()
		}
		return d.skip()
	})
}

// vector reads the result of an answer with an unusual beginning.
func (d *decoder) vector() error {
	open, err := d.json.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('[') {
		return fmt.Errorf("result is %v, not a list", open)
	}
	var raw json.RawMessage
	for d.json.More() {
		raw = raw[:0]
		if err := d.json.Decode(&raw); err != nil {
			return err
		}
		if used, err := d.next(raw); err != nil {
			return err
		} else if used != len(raw) {
			return fmt.Errorf("an element of the result is %.20q, not an object", raw)
		}
	}
	_, err = d.json.Token()
	return err
}

// general reads any element.
func (d *decoder) general(text []byte) error {
	var raw struct {
		Metric    map[string]string  `json:"metric"`
		Value     [2]json.RawMessage `json:"value"`
		Histogram json.RawMessage    `json:"histogram"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	if raw.Histogram != nil {
		return fmt.Errorf("%w: the answer holds a native histogram", ErrBadQuery)
	}
	var seconds float64
	var number string
	if err := json.Unmarshal(raw.Value[0], &seconds); err != nil {
		return fmt.Errorf("sample time: %w", err)
	}
	if err := json.Unmarshal(raw.Value[1], &number); err != nil {
		return fmt.Errorf("sample value: %w", err)
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil && !math.IsInf(value, 0) { // 1e999 parses to an infinity and an error
		return fmt.Errorf("sample value: %w", err)
	}
	ls := d.read.labels[:0]
	for name, value := range raw.Metric {
		if value != "" {
			ls = append(ls, [2][]byte{[]byte(name), []byte(value)})
		}
	}
	arrange(ls)
	d.read, d.stamp = element{ls, value, moment(seconds)}, nil
	return nil
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
