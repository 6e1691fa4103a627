package view

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// screen is as much of a terminal as the view uses: it wraps, goes up, and
// clears to the end of a line.
type screen struct {
	width    int
	rows     [][]rune
	row, col int
	wrapped  int // lines that were too long
}

func (s *screen) Write(p []byte) (int, error) {
	in := []rune(string(p))
	for i := 0; i < len(in); i++ {
		switch r := in[i]; {
		case r == '\r':
			s.col = 0
		case r == '\n':
			s.row, s.col = s.row+1, 0
		case r == '\x1b':
			end := i + strings.IndexAny(string(in[i:]), "AKm")
			switch sequence := string(in[i+1 : end+1]); sequence {
			case "[A":
				s.row--
			case "[K":
				s.line(s.row)
				s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
			case "[36m", "[0m":
			default:
				return 0, fmt.Errorf("unknown sequence %q", sequence)
			}
			i = end
		default:
			s.put(r)
		}
	}
	return len(p), nil
}

func (s *screen) line(row int) {
	for len(s.rows) <= row {
		s.rows = append(s.rows, nil)
	}
}

func (s *screen) put(r rune) {
	if s.col == s.width {
		s.row, s.col, s.wrapped = s.row+1, 0, s.wrapped+1
	}
	s.line(s.row)
	for len(s.rows[s.row]) <= s.col {
		s.rows[s.row] = append(s.rows[s.row], ' ')
	}
	s.rows[s.row][s.col] = r
	s.col++
}

func (s *screen) text() string {
	var out []string
	for _, r := range s.rows {
		out = append(out, strings.TrimRight(string(r), " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

var busy = Figures{At: 102 * time.Second, Rate: known(6.3), Queue: known(41), TTFT: known(2.1), Replicas: known(4), Wanted: known(7),
	Slices: []Slices{{"gpu", 3, 4}, {"3g.40gb", 5, 6}, {"1g.10gb", 3, 7}}, Nodes: known(4), Repartitioning: known(1), PricePerHour: known(26.08)}

var repartition = Decision{At: 31 * time.Second, What: "repartition", Subject: "mig-b/gpu1", Reason: "NoFreeSlice",
	Detail: "chat/vllm-5 requests 3g.40gb, and that is cheaper than a node"}

func live(width int) (*View, *screen) {
	s := &screen{width: width}
	return &View{out: s, live: true, width: func() int { return s.width }}, s
}

func TestTheScreenOfANarrowTerminal(t *testing.T) {
	v, s := live(80)
	for range 3 {
		v.Show(busy)
	}
	v.Decide(repartition)
	v.Show(busy)
	want := `  00:31  repartition  mig-b/gpu1           NoFreeSlice: chat/vllm-5 requests
         3g.40gb, and that is cheaper than a node
01:42  6.3 req/s  queue 41 ████  TTFT p95 2.1 s │ replicas 4 → 7
       gpu 3/4  3g.40gb 5/6  1g.10gb 3/7 │ nodes 4, 1 repartitioning
       26.08 $/h`
	if got := s.text(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	v.Summarize(Summary{})
	if got := s.text(); strings.Contains(got, "replicas") {
		t.Errorf("the live line stays behind:\n%s", got)
	}
}

func TestNothingWrapsAtAnyWidth(t *testing.T) {
	for width := 40; width < 200; width++ {
		v, s := live(width)
		v.Say("gpuscale · a story · 4 GPU nodes with 8 GPUs in 2 pools · Ctrl-C leaves nothing behind")
		for range 2 {
			v.Show(busy)
			v.Decide(repartition)
		}
		v.Close()
		if s.wrapped > 0 {
			t.Errorf("at %d columns %d lines are too long:\n%s", width, s.wrapped, s.text())
		}
		if got := s.text(); strings.Contains(got, "req/s") {
			t.Errorf("at %d columns the live line stays behind:\n%s", width, got)
		}
	}
}

func TestColourOnlyWhereWanted(t *testing.T) {
	for _, color := range []bool{true, false} {
		var b strings.Builder
		v := &View{out: &b, live: true, color: color, width: func() int { return 80 }}
		v.Decide(repartition)
		if got := strings.Contains(b.String(), "\x1b[36m"); got != color {
			t.Errorf("colour wanted: %v, got %q", color, b.String())
		}
	}
}

func TestPrintedTextIsNotFolded(t *testing.T) {
	v, s := live(20)
	v.Print("  export KUBECONFIG=" + strings.Repeat("x", 30))
	if !strings.Contains(strings.ReplaceAll(s.text(), "\n", ""), "KUBECONFIG="+strings.Repeat("x", 30)) {
		t.Errorf("got\n%s", s.text())
	}
}
