package prom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// points are the values of a series. A report reads millions of them, so a list is
// one allocation.
type points []Point

// UnmarshalJSON reads [[seconds,"value"],…].
func (p *points) UnmarshalJSON(text []byte) error {
	if out, ok := plainPoints(text); ok {
		*p = out
		return nil
	}
	var raw [][2]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	out := make(points, len(raw))
	for i, r := range raw {
		var err error
		if out[i], err = point(r); err != nil {
			return err
		}
	}
	*p = out
	return nil
}

// plainPoints reads a list as every server writes it, without blanks or escapes. It
// rejects nothing: any other form is for the general parser.
func plainPoints(text []byte) (points, bool) {
	if len(text) < 2 || text[0] != '[' {
		return nil, false
	}
	out := make(points, 0, bytes.Count(text[1:], []byte("[")))
	for rest := text[1:]; ; rest = rest[1:] {
		inner, open := bytes.CutPrefix(rest, []byte("["))
		seconds, inner, comma := bytes.Cut(inner, []byte(`,"`))
		value, inner, end := bytes.Cut(inner, []byte(`"]`))
		if !open || !comma || !end || len(inner) == 0 {
			return nil, false
		}
		at, err := strconv.ParseFloat(string(seconds), 64)
		v, bad := strconv.ParseFloat(string(value), 64)
		if err != nil || bad != nil {
			return nil, false
		}
		out = append(out, Point{Time: moment(at), Value: v})
		switch rest = inner; {
		case rest[0] == ']' && len(rest) == 1:
			return out, true
		case rest[0] != ',':
			return nil, false
		}
	}
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
	return Point{Time: moment(seconds), Value: value}, nil
}
