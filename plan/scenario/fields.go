package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan/forecast"
)

// fields are the words of a statement. The functions that name the fields of a
// thing read them with it, and write them where out is set, so that what is written
// reads back. A method that reads takes its word once, and reports whether it was
// there; one that writes leaves out a zero value, and is always false.
type fields struct {
	now   time.Time
	out   *strings.Builder
	sep   string // before each word that is written
	all   bool   // zero values are written too
	words []field
	used  []bool
	errs  []error
}

// reading reads the words of a statement. The first, a name, is none of them, but
// where the verb takes no name it is a flag.
func reading(s statement, now time.Time) *fields {
	words := s.fields
	if !s.named() {
		for _, word := range s.words {
			words = append([]field{{key: word}}, words...)
		}
	}
	return &fields{words: words, used: make([]bool, len(words)), now: now}
}

// written is the text of a thing's fields, each after a blank.
func written(now time.Time, write func(x *fields)) string {
	var b strings.Builder
	write(&fields{out: &b, sep: " ", now: now})
	return b.String()
}

// err joins all problems, unused words included.
func (x *fields) err() error {
	for i, f := range x.words {
		if !x.used[i] {
			x.fail(f.key, "is not known here, or is there twice")
			x.used[i] = true
		}
	}
	return errors.Join(x.errs...)
}

func (x *fields) fail(key, format string, args ...any) {
	x.errs = append(x.errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

func (x *fields) take(key string) (field, bool) {
	for i, f := range x.words {
		if f.key == key && !x.used[i] {
			x.used[i] = true
			return f, true
		}
	}
	return field{}, false
}

// has takes a word without a value, which is only read.
func (x *fields) has(key string) bool {
	f, ok := x.take(key)
	if ok && f.isSet {
		x.fail(key, "takes no value")
		return false
	}
	return ok
}

// flag is a word for true, and none for false.
func (x *fields) flag(key string, v *bool) { x.either(key, "", v, false) }

// either is a word for true and one for false, of which the default is not written.
func (x *fields) either(on, off string, v *bool, byDefault bool) {
	switch {
	case x.out != nil && *v && (x.all || !byDefault):
		x.out.WriteString(x.sep + on)
	case x.out != nil && !*v && (x.all || byDefault):
		x.out.WriteString(x.sep + off)
	case x.out == nil:
		yes, no := on != "" && x.has(on), off != "" && x.has(off)
		*v = (*v || yes) && !no
	}
}

// value is a word with one value.
func (x *fields) value(key string, zero bool, text func() string, set func(string) error) bool {
	if x.out != nil {
		if x.all || !zero {
			x.out.WriteString(x.sep + key + "=" + quote(text()))
		}
		return false
	}
	f, ok := x.take(key)
	switch {
	case !ok:
		return false
	case !f.isSet || f.many:
		x.fail(key, "takes one value")
	default:
		if err := set(f.value); err != nil {
			x.fail(key, "%v", plainly(err))
		}
	}
	return true
}

// plainly replaces strconv's errors by ones about the value.
func plainly(err error) error {
	var n *strconv.NumError
	switch {
	case !errors.As(err, &n):
		return err
	case errors.Is(n.Err, strconv.ErrRange):
		return fmt.Errorf("%q is too large", n.Num)
	default:
		return fmt.Errorf("want a number: %q", n.Num)
	}
}

func (x *fields) string(key string, v *string) bool {
	return x.value(key, *v == "", func() string { return *v }, func(s string) error { *v = s; return nil })
}

// count is an integer that is written where it is zero too.
func (x *fields) count(key string, v *int) bool { return integer(x, key, v, false) }

func (x *fields) int(key string, v *int) { integer(x, key, v, *v == 0) }

func integer[T int | int32](x *fields, key string, v *T, zero bool) bool {
	return x.value(key, zero, func() string { return strconv.FormatInt(int64(*v), 10) }, func(s string) error {
		n, err := strconv.ParseInt(s, 10, reflect.TypeFor[T]().Bits())
		*v = T(n)
		return err
	})
}

func (x *fields) float(key string, v *float64) {
	x.value(key, *v == 0, func() string { return strconv.FormatFloat(*v, 'g', -1, 64) }, func(s string) error {
		n, err := strconv.ParseFloat(s, 64)
		if n != n { // comparisons with NaN are all false
			return fmt.Errorf("want a number: %q", s)
		}
		*v = n
		return err
	})
}

func (x *fields) duration(key string, v *time.Duration) {
	x.value(key, *v == 0, func() string { return forecast.Short(*v) }, func(s string) (err error) { *v, err = time.ParseDuration(s); return err })
}

// The signs of times before and after now.
const ago, in = -1, 1

func (x *fields) time(key string, v *time.Time, sign time.Duration) bool {
	return x.timeUnless(v.IsZero(), key, v, sign)
}

func (x *fields) timeUnless(zero bool, key string, v *time.Time, sign time.Duration) bool {
	return x.value(key, zero, func() string { return timeText(*v, x.now, sign) }, func(s string) (err error) {
		*v, err = parseTime(s, x.now, sign)
		return err
	})
}

// unit is the suffix of a quantity, the one to write before others.
type unit struct {
	suffix string
	n      int64
}

var cpuUnits = []unit{{"", 1000}, {"m", 1}}

var memoryUnits = []unit{{"Gi", 1024}, {"Mi", 1}, {"Ti", 1024 * 1024}}

// quantity is whole units: "64", "64000m", "512Gi".
func (x *fields) quantity(key string, v *int64, units []unit) {
	x.value(key, *v == 0, func() string {
		i := slices.IndexFunc(units, func(u unit) bool { return *v%u.n == 0 })
		return strconv.FormatInt(*v/units[i].n, 10) + units[i].suffix
	}, func(s string) error {
		digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		i := slices.IndexFunc(units, func(u unit) bool { return u.suffix == s[len(digits):] })
		n, err := strconv.ParseInt(digits, 10, 64)
		if i < 0 || err != nil || n != n*units[i].n/units[i].n {
			return fmt.Errorf("want a number and one of the known units: %q", s)
		}
		*v = n * units[i].n
		return nil
	})
}

// items is a list: its entries written, or each read. A single value is a list of
// one.
func (x *fields) items(key string, entries func() []string, add func(item) error) bool {
	if x.out != nil {
		if words := entries(); len(words) > 0 {
			x.out.WriteString(x.sep + key + "=(" + strings.Join(words, " ") + ")")
		}
		return false
	}
	f, ok := x.take(key)
	if !ok {
		return false
	}
	if !f.isSet {
		x.fail(key, "takes a list")
		return true
	}
	if !f.many {
		f.list = []item{{{name: f.value}}}
	}
	for _, it := range f.list {
		if err := add(it); err != nil {
			x.fail(key, "%v", err)
		}
	}
	return true
}

// list is a list of things that are one entry each.
func list[T any](x *fields, key string, v *[]T, text func(T) string, parse func(item) (T, error)) bool {
	var all []T
	set := x.items(key, func() []string {
		words := make([]string, len(*v))
		for i, t := range *v {
			words[i] = text(t)
		}
		return words
	}, func(it item) error {
		t, err := parse(it)
		all = append(all, t)
		return err
	})
	if set {
		*v = all
	}
	return set
}

// parts is a list of things that are a word and fields behind it, separated by colons.
func parts[T any](x *fields, key string, v *[]T, word func(T) string, read func(segment) (T, error), rest func(x *fields, t *T)) bool {
	return list(x, key, v, func(t T) string {
		return word(t) + behind(x.now, func(x *fields) { rest(x, &t) })
	}, func(it item) (T, error) {
		t, err := read(it[0])
		return t, cmp.Or(err, readBehind(it, x.now, func(x *fields) { rest(x, &t) }))
	})
}

// behind is the text of fields behind the word of an item, and readBehind reads it.
func behind(now time.Time, write func(x *fields)) string {
	var b strings.Builder
	write(&fields{out: &b, sep: ":", now: now})
	return b.String()
}

func readBehind(it item, now time.Time, read func(x *fields)) error {
	x := &fields{now: now, used: make([]bool, len(it)-1)}
	for _, s := range it[1:] {
		x.words = append(x.words, field{key: s.name, value: s.value, isSet: s.isSet})
	}
	read(x)
	return x.err()
}

// names is a list of plain words.
func (x *fields) names(key string, v *[]string) bool {
	return list(x, key, v, quote, func(it item) (string, error) { return it[0].name, nil })
}

// parseTime reads "5m" (before or after now by sign), "@2026-…" and "never".
func parseTime(s string, now time.Time, sign time.Duration) (time.Time, error) {
	if s == "never" {
		return time.Time{}, nil
	}
	if at, ok := strings.CutPrefix(s, "@"); ok {
		t, err := time.Parse(time.RFC3339Nano, at)
		return t.UTC(), err
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return time.Time{}, err
	}
	return now.Add(sign * d), nil
}

// timeText writes a time so that parseTime reads it back.
func timeText(t, now time.Time, sign time.Duration) string {
	if t.IsZero() {
		return "never"
	}
	d := sign * t.Sub(now)
	if !now.Add(sign*d).Equal(t) || d == -1<<63 { // too far for a duration
		return "@" + t.UTC().Format(time.RFC3339Nano)
	}
	return forecast.Short(d)
}
