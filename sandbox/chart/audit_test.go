package chart

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// until waits like the one of all tests, and ends at the first request of ours that
// is refused: what is waited for would not come, and this says which right it lacks.
func (i *installation) until(t *testing.T, within time.Duration, what string, ok func() error) {
	t.Helper()
	until(t, within, what, func() error {
		if _, refused := i.answers(t); len(refused) > 0 {
			t.Fatalf("%s: refused: %q", what, refused)
		}
		return ok()
	})
}

// nothingRefused: not even a request that a program can do without.
func (i *installation) nothingRefused(t *testing.T) {
	answers, refused := i.answers(t)
	for _, what := range refused {
		t.Errorf("refused: %s", what)
	}
	for _, who := range []string{"gpuscale-adapter", "gpuscale-autoscaler"} {
		if answers[who] < 10 {
			t.Errorf("%s asked %d times; was it there at all?", who, answers[who])
		}
	}
}

// answers reads the audit log: how many answers each program got, and what was
// refused.
func (i *installation) answers(t *testing.T) (map[string]int, []string) {
	t.Helper()
	file, err := os.Open(i.audit)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	answers := map[string]int{}
	refused := map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ResponseStatus   struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the last line may be half written
		}
		who := e.User.Username[strings.LastIndex(e.User.Username, ":")+1:]
		answers[who]++
		if e.ResponseStatus.Code == http.StatusForbidden || e.ResponseStatus.Code == http.StatusUnauthorized {
			path, _, _ := strings.Cut(e.RequestURI, "?")
			refused[fmt.Sprintf("%s: %s %s", who, e.Verb, path)] = true
		}
	}
	return answers, slices.Sorted(maps.Keys(refused))
}
