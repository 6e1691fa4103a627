package prom

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// plain reads one element of a result vector as every server writes it:
// {"metric":{…},"value":[time,"value"]}, without blanks or escapes. It does so
// at a fraction of what the general way costs, and false says that the general
// way must look at the element: plain itself refuses nothing. The element must
// be valid JSON.
func (d *decoder) plain(raw []byte) (s Sample, ok bool) {
	rest, ok := bytes.CutPrefix(raw, []byte(`{"metric":{`))
	if !ok || bytes.IndexByte(raw, '\\') >= 0 || !utf8.Valid(raw) {
		return Sample{}, false
	}
	begin, sorted := len(d.room), true
	for len(rest) > 0 && rest[0] != '}' {
		var name, value []byte
		if name, rest, ok = quoted(rest); !ok || len(rest) == 0 || rest[0] != ':' {
			return d.forget(begin)
		}
		if value, rest, ok = quoted(rest[1:]); !ok {
			return d.forget(begin)
		}
		if len(value) > 0 {
			l := Label{d.known(name), d.known(value)}
			sorted = sorted && (len(d.room) == begin || d.room[len(d.room)-1].Name < l.Name)
			d.room = append(d.room, l)
		}
		if len(rest) > 1 && rest[0] == ',' && rest[1] == '"' {
			rest = rest[1:]
		}
	}
	if rest, ok = bytes.CutPrefix(rest, []byte(`},"value":[`)); !ok || !sorted && !arrange(d.room[begin:]) {
		return d.forget(begin)
	}
	number, rest, ok := bytes.Cut(rest, []byte(`,"`))
	text, end := bytes.CutSuffix(rest, []byte(`"]}`))
	seconds, err1 := strconv.ParseFloat(string(number), 64)
	value, err2 := strconv.ParseFloat(string(text), 64)
	if !ok || !end || err1 != nil || err2 != nil {
		return d.forget(begin)
	}
	// Of its own length, so that nobody's append runs into the next sample's.
	ls := d.room[begin:len(d.room):len(d.room)]
	if cap(d.room)-len(d.room) < maxPlain {
		d.room = make([]Label, 0, roomSize)
	}
	return Sample{Labels: Labels(ls), Value: value, Time: time.UnixMilli(int64(math.Round(seconds * 1000)))}, true
}

// Labels are kept in blocks of roomSize, begun anew when fewer than maxPlain
// are left.
const (
	roomSize = 4096
	maxPlain = 64
)

// arrange puts labels in order; false if a name stands twice.
func arrange(ls []Label) bool {
	slices.SortFunc(ls, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	for i := range ls[min(1, len(ls)):] {
		if ls[i].Name == ls[i+1].Name {
			return false
		}
	}
	return true
}

func (d *decoder) forget(begin int) (Sample, bool) {
	d.room = d.room[:begin]
	return Sample{}, false
}

// quoted cuts the JSON string without escapes that text begins with.
func quoted(text []byte) (inner, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(text[1:], '"')
	if end < 0 {
		return nil, nil, false
	}
	return text[1 : end+1], text[end+2:], true
}

// known is intern without making a string of what was met before.
func (d *decoder) known(text []byte) string {
	if s, ok := d.seen[string(text)]; ok {
		return s
	}
	return d.intern(string(text))
}
