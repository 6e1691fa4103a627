package scenario

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
)

// list is a word with entries. The words of an entry have colons between them. Entries that
// are read replace those of v.
func list[T any](x *fields, key string, v *[]T, entry func(x *fields, t *T)) bool {
	return listUnless(x, len(*v) == 0, key, v, entry)
}

// listUnless is a list that is not written if missing is set. An empty list is written.
func listUnless[T any](x *fields, missing bool, key string, v *[]T, entry func(x *fields, t *T)) bool {
	if x.out != nil {
		if !missing {
			words := make([]string, len(*v))
			for i := range *v {
				y := &fields{out: &strings.Builder{}, sep: ":", now: x.now}
				entry(y, &(*v)[i])
				words[i] = strings.TrimPrefix(y.out.String(), ":")
			}
			x.write(key + "=(" + strings.Join(words, " ") + ")")
		}
		return false
	}
	w, ok := x.take(key)
	if !ok {
		return false
	}
	if !w.isSet {
		x.fail(key, "takes a list")
		return true
	}
	if w.list == nil { // a single value is a list of one
		w.list = [][]word{{{key: w.value}}}
	}
	var all []T
	for _, words := range w.list {
		var t T
		y := &fields{words: slices.Clone(words), now: x.now}
		entry(y, &t)
		all = append(all, t)
		if err := y.err(); err != nil {
			x.fail(key, "%v", err)
		}
	}
	*v = all
	return true
}

// The methods for entries take the first of the words.

// head is a word without a value.
func (x *fields) head(text func() string, set func(string) error) {
	if x.out != nil {
		x.write(quote(text()))
		return
	}
	if len(x.words) == 0 {
		x.errs = append(x.errs, errors.New("one more word is wanted after a colon"))
		return
	}
	first := x.words[0].key
	x.has(first)
	if err := set(first); err != nil {
		x.errs = append(x.errs, plainly(err))
	}
}

func (x *fields) word(v *string) {
	x.head(func() string { return *v }, func(s string) error { *v = s; return nil })
}

// rest is all words that are left.
func (x *fields) rest(v *[]string) {
	if n := len(x.words); x.out == nil && n > 0 {
		*v = make([]string, n)
	}
	for i := range *v {
		x.word(&(*v)[i])
	}
}

// name reads the key of the next word, name=value, without taking the word.
func (x *fields) name(v *string) {
	if x.out == nil {
		*v = x.words[0].key
	}
}

// pair is name=value, or name for an empty value.
func (x *fields) pair(name, value *string) {
	switch {
	case x.out == nil:
		*name, *value = x.words[0].key, x.words[0].value
		x.words = x.words[1:]
	case *value == "":
		x.write(quote(*name))
	default:
		x.write(quote(*name) + "=" + quote(*value))
	}
}

// names is a list of plain words.
func (x *fields) names(key string, v *[]string) bool { return list(x, key, v, (*fields).word) }

// labels is a list of pairs, by name.
func (x *fields) labels(key string, v *map[string]string) {
	type label struct{ name, value string }
	var all []label
	for name, value := range sorted(*v) {
		all = append(all, label{name, value})
	}
	if list(x, key, &all, func(x *fields, l *label) { x.pair(&l.name, &l.value) }) {
		*v = nil
		for _, l := range all {
			if *v == nil {
				*v = map[string]string{}
			}
			(*v)[l.name] = l.value
		}
	}
}

// sorted ranges over a map by name.
func sorted[M ~map[string]V, V any](m M) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}
