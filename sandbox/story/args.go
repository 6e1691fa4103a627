package story

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
)

// args are the words of one line behind the verb: at most one name, then
// key=value pairs. Reading keeps the first error, so that a verb asks for all
// it wants and looks once.
type args struct {
	verb  string
	words []string // without =
	pairs map[string]string
	err   error
}

func newArgs(verb string, words []string) (*args, error) {
	a := &args{verb: verb, pairs: map[string]string{}}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			a.words = append(a.words, w)
			continue
		}
		if _, twice := a.pairs[key]; twice {
			return nil, fmt.Errorf("%s: %s stands twice", verb, key)
		}
		a.pairs[key] = value
	}
	return a, nil
}

func (a *args) fail(format string, v ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(a.verb+": "+format, v...)
	}
}

// word takes the next word without "=".
func (a *args) word(what string) string {
	if len(a.words) == 0 {
		a.fail("%s is missing", what)
		return ""
	}
	w := a.words[0]
	a.words = a.words[1:]
	return w
}

// object takes a word of the form namespace/name.
func (a *args) object() (namespace, name string) {
	w := a.word("namespace/name")
	namespace, name, ok := strings.Cut(w, "/")
	if a.err == nil && (!ok || namespace == "" || name == "" || strings.Contains(name, "/")) {
		a.fail("%q is not namespace/name", w)
	}
	return namespace, name
}

func (a *args) take(key string) (string, bool) {
	v, ok := a.pairs[key]
	delete(a.pairs, key)
	return v, ok
}

func (a *args) text(key string) string {
	v, ok := a.take(key)
	if !ok || v == "" {
		a.fail("%s= is missing", key)
	}
	return v
}

func (a *args) maybe(key string) string {
	v, _ := a.take(key)
	return v
}

// whole number between 0 and a million; the default where the key is missing.
func (a *args) whole(key string, otherwise int) int {
	v, ok := a.take(key)
	if !ok {
		if otherwise < 0 {
			a.fail("%s= is missing", key)
		}
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > 1_000_000 {
		a.fail("%s=%s is not a whole number from 0 to 1000000", key, v)
	}
	return n
}

func (a *args) number(key string, otherwise float64) float64 {
	v, ok := a.take(key)
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > 1e9 {
		a.fail("%s=%s is not a number from 0 to 1e9", key, v)
		return 0
	}
	return n
}

func (a *args) duration(key string, otherwise time.Duration) time.Duration {
	v, ok := a.take(key)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 || d > 31*24*time.Hour {
		a.fail("%s=%s is not a time like 90s", key, v)
		return 0
	}
	return d
}

// layout like "3g.40gb*2 | 1g.10gb*7": cards by |, instances by spaces.
func (a *args) layout(key string) Layout {
	v, ok := a.take(key)
	if !ok {
		return nil
	}
	var out Layout
	for _, card := range strings.Split(v, "|") {
		counts := map[string]int{}
		for _, word := range strings.Fields(card) {
			name, times, many := strings.Cut(word, "*")
			n := 1
			if many {
				var err error
				if n, err = strconv.Atoi(times); err != nil || n < 1 || n > 8 {
					a.fail("%s: %q is not an instance like 3g.40gb*2", key, word)
				}
			}
			counts[name] += n
		}
		out = append(out, counts)
	}
	return out
}

// done reports the first error, or what nobody asked for.
func (a *args) done() error {
	if a.err != nil {
		return a.err
	}
	if len(a.words) > 0 {
		return fmt.Errorf("%s: %q is too much", a.verb, a.words[0])
	}
	var left []string
	for k := range a.pairs {
		left = append(left, k+"=")
	}
	if len(left) > 0 {
		sort.Strings(left)
		return fmt.Errorf("%s: unknown %s", a.verb, strings.Join(left, ", "))
	}
	return nil
}
