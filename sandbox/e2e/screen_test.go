package e2e

import (
	"strings"
	"sync"
	"testing"
)

// lastLine is the last line that a demo prints when it is kept running.
const lastLine = "get --raw /debug/rules\n"

// screen is what a demo has drawn so far. It signals when a text appears.
type screen struct {
	want  string
	shown chan struct{} // closed when want has been drawn

	mu   sync.Mutex
	once sync.Once
	b    strings.Builder
}

func newScreen(want string) *screen { return &screen{want: want, shown: make(chan struct{})} }

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.b.Write(p)
	if strings.Contains(s.b.String(), s.want) {
		s.once.Do(func() { close(s.shown) })
	}
	return n, err
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// after returns the text after a word at the start of a line, up to the next space.
func (s *screen) after(t *testing.T, word string) string {
	t.Helper()
	for _, line := range strings.Split(s.text(), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == word {
			return fields[1]
		}
	}
	t.Fatalf("the screen has no line %q", word)
	return ""
}

// pasted returns the lines that the demo prints for pasting into a shell.
func (s *screen) pasted(t *testing.T) string {
	t.Helper()
	_, lines, ok := strings.Cut(s.text(), "in another terminal:\n")
	if !ok {
		t.Fatal("the screen has nothing to paste")
	}
	return lines
}
