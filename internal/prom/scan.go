package prom

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
)

// heads are the beginnings of an answer with a vector: of Prometheus and servers
// with its code, and of VictoriaMetrics.
var heads = [...]string{
	`{"status":"success","data":{"resultType":"vector","result":[`,
	`{"status":"success","isPartial":false,"data":{"resultType":"vector","result":[`,
}

// chunk is how much is read at once, in bytes, and so how long others wait for
// their lock: a fraction of a millisecond.
const chunk = 64 << 10

// scanner reads the elements of an answer from the buffer they arrive in. It finds
// an element's limits only; the decoder parses it.
type scanner struct {
	r        io.Reader
	lock     sync.Locker
	buf      []byte
	pos, end int
	err      error // of the reader
}

// fill reads more after the unused rest. It unlocks meanwhile: a slow server
// delays no other query, and requests that arrived during the last chunk go
// first.
func (s *scanner) fill() error {
	if s.err != nil {
		return s.err
	}
	copy(s.buf, s.buf[s.pos:s.end])
	s.pos, s.end = 0, s.end-s.pos
	if s.end == len(s.buf) {
		s.buf = append(s.buf, make([]byte, max(chunk, len(s.buf)))...)
	}
	s.lock.Unlock()
	runtime.Gosched()
	n, err := s.r.Read(s.buf[s.end:])
	s.lock.Lock()
	s.end += n
	s.err = err
	if n > 0 {
		return nil
	}
	return err
}

func (s *scanner) rest() []byte { return s.buf[s.pos:s.end] }

// opens reports whether the answer begins with one of heads, and skips it.
func (s *scanner) opens() (head string, ok bool) {
	for {
		possible := false
		for _, head := range heads {
			if bytes.HasPrefix(s.rest(), []byte(head)) {
				s.pos += len(head)
				return head, true
			}
			possible = possible || strings.HasPrefix(head, string(s.rest()[:min(len(head), len(s.rest()))]))
		}
		if !possible || s.fill() != nil {
			return "", false
		}
	}
}

// elements passes each element of the list to take, up to the closing bracket,
// which stays unread.
func (s *scanner) elements(take func(rest []byte) (used int, err error)) error {
	for first := true; ; first = false {
		c, err := s.sign()
		if err != nil {
			return err
		}
		if c == ']' {
			return nil
		}
		if !first {
			if c != ',' {
				return fmt.Errorf("%q stands between two elements of the result", c)
			}
			s.pos++
			if c, err = s.sign(); err != nil {
				return err
			}
		}
		if c != '{' {
			return fmt.Errorf("an element of the result begins with %q", c)
		}
		if err := s.element(take); err != nil {
			return err
		}
	}
}

// element passes the next element to take once it is complete: take uses 0 bytes
// of an incomplete one.
func (s *scanner) element(take func(rest []byte) (used int, err error)) error {
	for {
		used, err := take(s.rest())
		if err != nil {
			return err
		}
		if used > 0 {
			s.pos += used
			return nil
		}
		if err := s.fill(); err != nil {
			return unexpectedEnd(err)
		}
	}
}

// sign returns the next character that is not white space, unread.
func (s *scanner) sign() (byte, error) {
	for {
		for ; s.pos < s.end; s.pos++ {
			switch c := s.buf[s.pos]; c {
			case ' ', '\n', '\r', '\t':
			default:
				return c, nil
			}
		}
		if err := s.fill(); err != nil {
			return 0, unexpectedEnd(err)
		}
	}
}

func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// object returns the JSON object that text begins with, or nil if it is
// incomplete. It does not validate the JSON.
func object(text []byte) []byte {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return text[:i+1]
			}
		}
	}
	return nil
}
