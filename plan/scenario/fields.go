package scenario

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// fields reads or writes the words of a statement, or of an entry of a list. One function
// for each thing (podFields, nodeFields, …) does both, so that what is written reads back.
// When reading, a method takes its word, once, and reports whether it was there. When
// writing (out is set), a method leaves out a zero value, and is always false.
type fields struct {
	now   time.Time
	out   *strings.Builder
	sep   string // before each word that is written
	all   bool   // zero values are written too
	words []word // not taken yet
	errs  []error
}

// reading returns the fields of a statement, without the name that it is about.
func reading(s statement, now time.Time) *fields {
	words := s.words
	if _, ok := s.name(); ok {
		words = words[1:]
	}
	return &fields{words: slices.Clone(words), now: now}
}

// written is the text of a thing's fields, each after a blank.
func written(now time.Time, write func(x *fields)) string {
	x := &fields{out: &strings.Builder{}, sep: " ", now: now}
	write(x)
	return x.out.String()
}

func (x *fields) write(word string) { x.out.WriteString(x.sep + word) }

// err joins all problems, unused words included.
func (x *fields) err() error {
	for _, w := range x.words {
		x.fail(w.key, "is not known here, or is there twice")
	}
	x.words = nil
	return errors.Join(x.errs...)
}

func (x *fields) fail(key, format string, args ...any) {
	x.errs = append(x.errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

func (x *fields) take(key string) (word, bool) {
	i := slices.IndexFunc(x.words, func(w word) bool { return w.key == key })
	if i < 0 {
		return word{}, false
	}
	w := x.words[i]
	x.words = slices.Delete(x.words, i, i+1)
	return w, true
}

// has takes a word without a value. It is for reading only.
func (x *fields) has(key string) bool {
	w, ok := x.take(key)
	if ok && w.isSet {
		x.fail(key, "takes no value")
		return false
	}
	return ok
}

// flag is a word for true, and none for false.
func (x *fields) flag(key string, v *bool) { x.either(key, "", v, false) }

// either is a word for true and a word for false. The word of the default is not written.
func (x *fields) either(on, off string, v *bool, byDefault bool) {
	switch {
	case x.out == nil:
		yes, no := on != "" && x.has(on), off != "" && x.has(off)
		*v = (*v || yes) && !no
	case *v && (x.all || !byDefault):
		x.write(on)
	case !*v && (x.all || byDefault):
		x.write(off)
	}
}

// value is a word with one value.
func (x *fields) value(key string, zero bool, text func() string, set func(string) error) bool {
	if x.out != nil {
		if x.all || !zero {
			x.write(quote(key) + "=" + quote(text()))
		}
		return false
	}
	w, ok := x.take(key)
	switch {
	case !ok:
		return false
	case !w.isSet || w.list != nil:
		x.fail(key, "takes one value")
	default:
		if err := set(w.value); err != nil {
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

func (x *fields) string(key string, v *string) bool { return text(x, key, v, *v == "") }

// text is a word whose value is any text.
func text[T ~string](x *fields, key string, v *T, zero bool) bool {
	return x.value(key, zero, func() string { return string(*v) }, func(s string) error { *v = T(s); return nil })
}

// oneOf is a word whose value is one of some.
func oneOf[T comparable](x *fields, key string, v *T, zero bool, of ...T) bool {
	return x.value(key, zero, func() string { return fmt.Sprint(*v) }, func(s string) error {
		i := slices.IndexFunc(of, func(t T) bool { return fmt.Sprint(t) == s })
		if i < 0 {
			return fmt.Errorf("want one of %s: %q", strings.Trim(fmt.Sprint(of), "[]"), s)
		}
		*v = of[i]
		return nil
	})
}

// count is an integer that is written where it is zero too.
func (x *fields) count(key string, v *int) bool { return integer(x, key, v, false) }

func (x *fields) int(key string, v *int) { integer(x, key, v, *v == 0) }

func integer[T int | int32 | int64](x *fields, key string, v *T, zero bool) bool {
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
	x.value(key, *v == 0, func() string { return sample.Short(*v) }, func(s string) (err error) { *v, err = time.ParseDuration(s); return err })
}

// The signs of times before and after now.
const ago, in = -1, 1

func (x *fields) time(key string, v *time.Time, sign time.Duration) bool {
	return x.timeUnless(v.IsZero(), key, v, sign)
}

// timeUnless is a time: "5m", before or after now by sign, "@2026-…" or "never". It is not
// written if zero is set.
func (x *fields) timeUnless(zero bool, key string, v *time.Time, sign time.Duration) bool {
	return x.value(key, zero, func() string {
		d := sign * v.Sub(x.now)
		switch {
		case v.IsZero():
			return "never"
		case !x.now.Add(sign*d).Equal(*v) || d == -1<<63: // too far for a duration
			return "@" + v.UTC().Format(time.RFC3339Nano)
		}
		return sample.Short(d)
	}, func(s string) error {
		if s == "never" {
			*v = time.Time{}
			return nil
		}
		if at, ok := strings.CutPrefix(s, "@"); ok {
			t, err := time.Parse(time.RFC3339Nano, at)
			*v = t.UTC()
			return err
		}
		d, err := time.ParseDuration(s)
		*v = x.now.Add(sign * d)
		return err
	})
}

// unit is a suffix of quantities and what it multiplies by. A quantity is written with the first unit that divides it.
type unit struct {
	suffix string
	n      int64
}

var cpuUnits = []unit{{"", 1000}, {"m", 1}}

var memoryUnits = []unit{{"Gi", 1024}, {"Mi", 1}, {"Ti", 1024 * 1024}}

// quantity is a whole number of units: "64", "64000m", "512Gi".
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
