package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// reader takes the fields of one statement, each once, and collects errors.
type reader struct {
	fields []field
	used   []bool
	now    time.Time
	errs   []error
}

func newReader(s statement, now time.Time) *reader {
	return &reader{fields: s.fields, used: make([]bool, len(s.fields)), now: now}
}

// err joins all problems, unused fields included.
func (r *reader) err() error {
	for i, f := range r.fields {
		if !r.used[i] {
			r.fail(f.key, "is not known here, or is there twice")
			r.used[i] = true
		}
	}
	return errors.Join(r.errs...)
}

func (r *reader) fail(key, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

func (r *reader) take(key string) (field, bool) {
	for i, f := range r.fields {
		if f.key == key && !r.used[i] {
			r.used[i] = true
			return f, true
		}
	}
	return field{}, false
}

// flag sets v where the word is present.
func (r *reader) flag(key string, v *bool) {
	f, ok := r.take(key)
	switch {
	case ok && f.isSet:
		r.fail(key, "takes no value")
	case ok:
		*v = true
	}
}

// off clears v where the word is present.
func (r *reader) off(key string, v *bool) {
	given := false
	if r.flag(key, &given); given {
		*v = false
	}
}

// text passes a single value to set; it reports whether the field was there.
func (r *reader) text(key string, set func(string) error) bool {
	f, ok := r.take(key)
	switch {
	case !ok:
		return false
	case !f.isSet || f.many:
		r.fail(key, "takes one value")
	default:
		if err := set(f.value); err != nil {
			r.fail(key, "%v", plainly(err))
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

func (r *reader) string(key string, v *string) bool {
	return r.text(key, func(s string) error { *v = s; return nil })
}

func (r *reader) int(key string, v *int) bool {
	return r.text(key, func(s string) (err error) { *v, err = strconv.Atoi(s); return err })
}

func (r *reader) float(key string, v *float64) {
	r.text(key, func(s string) error {
		n, err := strconv.ParseFloat(s, 64)
		if n != n { // comparisons with NaN are all false
			return fmt.Errorf("want a number: %q", s)
		}
		*v = n
		return err
	})
}

func (r *reader) duration(key string, v *time.Duration) {
	r.text(key, func(s string) (err error) { *v, err = time.ParseDuration(s); return err })
}

// ago and in read a time before and after now.
func (r *reader) ago(key string, v *time.Time) bool {
	return r.text(key, func(s string) (err error) { *v, err = parseTime(s, r.now, -1); return err })
}

func (r *reader) in(key string, v *time.Time) bool {
	return r.text(key, func(s string) (err error) { *v, err = parseTime(s, r.now, 1); return err })
}

// quantity reads whole units with an optional suffix, "64", "64000m", "512Gi".
func (r *reader) quantity(key string, v *int64, units map[string]int64) {
	r.text(key, func(s string) error {
		digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		unit, ok := units[s[len(digits):]]
		n, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || n != n*unit/unit {
			return fmt.Errorf("want a number and one of the known units: %q", s)
		}
		*v = n * unit
		return nil
	})
}

var cpuUnits = map[string]int64{"": 1000, "m": 1}

var memoryUnits = map[string]int64{"Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}

// items passes each entry of a list to add. A single value is a list of one.
func (r *reader) items(key string, add func(item) error) bool {
	f, ok := r.take(key)
	if !ok {
		return false
	}
	if !f.isSet {
		r.fail(key, "takes a list")
		return true
	}
	if !f.many {
		f.list = []item{{{name: f.value}}}
	}
	for _, it := range f.list {
		if err := add(it); err != nil {
			r.fail(key, "%v", err)
		}
	}
	return true
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
	return durationText(d)
}

// durationText is Go's, without its tail of zeros.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// busyText is "0.93~15s": a share and its age.
func busyText(v sample.Value) string {
	n, _ := v.Get()
	age, _ := v.Age()
	return strconv.FormatFloat(n, 'g', -1, 64) + "~" + durationText(age)
}

func parseBusy(s string) (sample.Value, error) {
	number, age, _ := strings.Cut(s, "~")
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return sample.Value{}, err
	}
	d := time.Duration(0)
	if age != "" {
		if d, err = time.ParseDuration(age); err != nil {
			return sample.Value{}, err
		}
	}
	return sample.Known(n, d), nil
}
