package prom

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// element is an element as read. Its texts are in the scanner's buffer.
type element struct {
	labels [][2][]byte // name and value, in order of name, none empty
	value  float64
	at     time.Time
}

// verdict of the fast parser on an element.
type verdict int

const (
	taken verdict = iota
	odd           // needs the general parser
	short         // may be incomplete
)

// plain reads an element as every server writes it,
// {"metric":{…},"value":[time,"value"]}, without blanks or escapes. It costs a
// fraction of the general parser, and rejects nothing: any other form is odd.
func (d *decoder) plain(text []byte) (used int, v verdict) {
	const open, middle, end = `{"metric":{`, `},"value":[`, `"]}`
	rest, v := after(text, open)
	if v != taken {
		return 0, v
	}
	if rest, v = d.pairs(rest); v != taken {
		return 0, v
	}
	if rest, v = after(rest, middle); v != taken {
		return 0, v
	}
	number, rest, v := until(rest, ',')
	if v != taken {
		return 0, v
	}
	if rest, v = after(rest, `"`); v != taken {
		return 0, v
	}
	value, rest, v := until(rest, '"')
	if v != taken {
		return 0, v
	}
	if rest, v = after(rest, end[1:]); v != taken {
		return 0, v
	}
	used = len(text) - len(rest)
	var err error
	if d.read.value, err = strconv.ParseFloat(string(value), 64); err != nil || !d.time(number) || !utf8.Valid(text[:used]) {
		return 0, odd
	}
	return used, taken
}

// pairs reads labels up to the closing brace.
func (d *decoder) pairs(rest []byte) ([]byte, verdict) {
	ls, sorted := d.read.labels[:0], true
	defer func() { d.read.labels = ls }()
	for first := true; ; first = false {
		if len(rest) == 0 {
			return nil, short
		}
		if rest[0] == '}' {
			break
		}
		open := `,"`
		if first {
			open = `"`
		}
		var name, value []byte
		var v verdict
		if rest, v = after(rest, open); v != taken {
			return nil, v
		}
		if name, rest, v = until(rest, '"'); v != taken {
			return nil, v
		}
		if rest, v = after(rest, `:"`); v != taken {
			return nil, v
		}
		if value, rest, v = until(rest, '"'); v != taken {
			return nil, v
		}
		if len(value) > 0 {
			sorted = sorted && (len(ls) == 0 || bytes.Compare(ls[len(ls)-1][0], name) < 0)
			ls = append(ls, [2][]byte{name, value})
		}
	}
	if !sorted && !arrange(ls) {
		return nil, odd
	}
	return rest, taken
}

// arrange sorts labels; false if a name is there twice.
func arrange(ls [][2][]byte) bool {
	slices.SortFunc(ls, func(a, b [2][]byte) int { return bytes.Compare(a[0], b[0]) })
	for i := range ls[min(1, len(ls)):] {
		if bytes.Equal(ls[i][0], ls[i+1][0]) {
			return false
		}
	}
	return true
}

// time reads the time of evaluation, which is the same for all elements.
func (d *decoder) time(number []byte) bool {
	if len(number) > 0 && bytes.Equal(number, d.stamp) {
		return true
	}
	seconds, err := strconv.ParseFloat(string(number), 64)
	if err != nil || number[0] != '-' && (number[0] < '0' || number[0] > '9') {
		return false
	}
	d.stamp, d.read.at = append(d.stamp[:0], number...), moment(seconds)
	return true
}

func moment(seconds float64) time.Time { return time.UnixMilli(int64(math.Round(seconds * 1000))) }

// after removes a required prefix from text.
func after(text []byte, begin string) ([]byte, verdict) {
	if len(text) >= len(begin) {
		if string(text[:len(begin)]) == begin {
			return text[len(begin):], taken
		}
		return nil, odd
	}
	if begin[:len(text)] == string(text) {
		return nil, short
	}
	return nil, odd
}

// until splits text at a character. Escapes are odd, and so are control
// characters, which JSON does not allow in a string.
func until(text []byte, end byte) (before, rest []byte, v verdict) {
	for i, c := range text {
		switch {
		case c == end:
			return text[:i], text[i+1:], taken
		case c == '\\', c < ' ':
			return nil, nil, odd
		}
	}
	return nil, nil, short
}
