package story

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
)

// Error says which line of a story cannot be understood.
type Error struct {
	File string
	Line int // from 1
	Msg  string
}

func (e *Error) Error() string { return fmt.Sprintf("story %s:%d: %s", e.File, e.Line, e.Msg) }

// Load reads a story from a file.
func Load(path string) (Story, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Story{}, fmt.Errorf("opening the story: %w", err)
	}
	return Parse(path, string(text))
}

// Parse reads a story. The error, if any, joins one *Error for each line that
// is wrong.
func Parse(file, text string) (Story, error) {
	var s Story
	var errs []error
	scan := bufio.NewScanner(strings.NewReader(text))
	scan.Buffer(nil, 1<<20)
	n := 0
	for scan.Scan() {
		n++
		words, err := split(scan.Text())
		if err == nil && len(words) > 0 {
			err = s.take(words)
		}
		if err != nil {
			errs = append(errs, &Error{file, n, err.Error()})
		}
	}
	if err := scan.Err(); err != nil {
		errs = append(errs, &Error{file, n + 1, err.Error()})
	}
	if len(errs) == 0 {
		for _, err := range s.check() {
			errs = append(errs, &Error{file, n, err.Error()})
		}
	}
	sort.SliceStable(s.Faults, func(i, j int) bool { return s.Faults[i].At < s.Faults[j].At })
	return s, errors.Join(errs...)
}

// split cuts a line into words. Quotes keep spaces together, anywhere in a
// word; a # outside of them begins a comment.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	started, quoted := false, false
	for _, r := range line {
		switch {
		case r == '"':
			quoted, started = !quoted, true
		case quoted:
			word.WriteRune(r)
		case r == '#':
			if started {
				words = append(words, word.String())
			}
			return words, nil
		case r == ' ' || r == '\t' || r == '\r':
			if started {
				words = append(words, word.String())
				word.Reset()
				started = false
			}
		default:
			started = true
			word.WriteRune(r)
		}
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	if started {
		words = append(words, word.String())
	}
	return words, nil
}

func (s *Story) take(words []string) error {
	verb, rest := words[0], words[1:]
	switch verb {
	case "story":
		if len(rest) != 1 {
			return errors.New("story takes one title, in quotes")
		}
		s.Title = rest[0]
		return nil
	case "expect", "always":
		e, err := parseExpectation(verb, rest)
		if err != nil {
			return err
		}
		if verb == "always" {
			s.Always = append(s.Always, e)
		} else {
			s.Expect = append(s.Expect, e)
		}
		return nil
	}
	read, ok := verbs()[verb]
	if !ok {
		return fmt.Errorf("unknown verb %q", verb)
	}
	a, err := newArgs(verb, rest)
	if err != nil {
		return err
	}
	read(s, a)
	return a.done()
}
