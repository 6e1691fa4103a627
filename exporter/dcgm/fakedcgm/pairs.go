package fakedcgm

import (
	"fmt"
	"strconv"
)

// pairs is one line after its keyword: key value key value. It keeps the first
// error, so that a caller asks for all keys and looks once.
type pairs struct {
	keyword string
	values  map[string]string
	asked   int
	err     error
}

func newPairs(words []string) (*pairs, error) {
	p := &pairs{keyword: words[0], values: map[string]string{}}
	rest := words[1:]
	if len(rest)%2 != 0 {
		return nil, fmt.Errorf("%q: a key has no value", p.keyword)
	}
	for ; len(rest) > 0; rest = rest[2:] {
		if _, twice := p.values[rest[0]]; twice {
			return nil, fmt.Errorf("%q: key %q stands twice", p.keyword, rest[0])
		}
		p.values[rest[0]] = rest[1]
	}
	return p, nil
}

func (p *pairs) text(key string) string {
	v, ok := p.values[key]
	if !ok && p.err == nil {
		p.err = fmt.Errorf("%q: key %q is missing", p.keyword, key)
	}
	p.asked++
	return v
}

// number is a 32-bit one, as it is in C.
func (p *pairs) number(key string) int {
	return int(p.whole(key, 32))
}

func (p *pairs) whole(key string, bits int) int64 {
	v := p.text(key)
	n, err := strconv.ParseInt(v, 10, bits)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("%q: %s %q is not a whole number of %d bits", p.keyword, key, v, bits)
	}
	return n
}

// done gives the first error, or one for keys that nobody asked for.
func (p *pairs) done() error {
	if p.err == nil && p.asked != len(p.values) {
		return fmt.Errorf("%q: %d unknown keys", p.keyword, len(p.values)-p.asked)
	}
	return p.err
}
