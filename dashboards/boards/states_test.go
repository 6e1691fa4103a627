package boards_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/states"
)

// loaded is a board as it is committed.
type loaded struct {
	uid    string
	d      dashboard.Dashboard
	titles map[string]string
}

var committed = sync.OnceValue(func() []loaded {
	var all []loaded
	for _, b := range boards.All() {
		text, err := os.ReadFile(filepath.Join(folder, b.UID+".json"))
		if err != nil {
			panic(err)
		}
		d, titles, err := eval.Load(text)
		if err != nil {
			panic(err)
		}
		all = append(all, loaded{b.UID, d, titles})
	}
	return all
})

// window is that of a board opened at the end of the recording.
func window(s states.State) eval.Window {
	return eval.Window{From: s.Start(), To: s.End(), Step: 30 * time.Second, Scrape: states.Every}
}

// ruled are the states with the series of our recording rules.
func ruled() []states.State {
	all := slices.Clone(states.All())
	for i := range all {
		all[i] = all[i].WithRules()
	}
	return all
}

// honored are the two ways in which Prometheus can treat our labels.
var honored = []bool{true, false}

func way(honor bool) string {
	if honor {
		return "honor_labels"
	}
	return "exported_"
}

// Every query of every panel, variable and annotation is answered in every state and
// both ways: without an error, without NaN, without two series of one name, and not
// empty unless the table has a reason.
func TestEveryPanelInEveryState(t *testing.T) {
	used := map[string]bool{}
	for _, s := range ruled() {
		for _, honor := range honored {
			t.Run(s.Name+"/"+way(honor), func(t *testing.T) {
				src, w := eval.Engine(s.Storage(honor)), window(s)
				for _, b := range committed() {
					checkBoard(t, src, b, w, s.Name, used)
				}
			})
		}
	}
	for key := range mayBeEmpty {
		if !used[key] {
			t.Errorf("mayBeEmpty has %s, which is never empty, or no panel", key)
		}
	}
}

func checkBoard(t *testing.T, src eval.Source, b loaded, w eval.Window, state string, used map[string]bool) {
	t.Helper()
	vars, err := eval.All(t.Context(), src, b.d, w)
	if err != nil {
		t.Errorf("%s: %v", b.uid, err)
		return
	}
	for _, v := range b.d.Templating.List {
		if v.Type == dashboard.VariableTypeQuery {
			values, err := eval.Values(t.Context(), src, v, vars, w)
			checkValues(t, b.uid+"/$"+v.Name, values, err, state, used)
		}
	}
	if _, err := eval.Events(t.Context(), src, b.d, b.titles, vars, w); err != nil {
		t.Errorf("%s: %v", b.uid, err)
	}
	for _, p := range eval.Panels(b.d) {
		a, err := eval.Ask(t.Context(), src, p, vars, w)
		name := b.uid + "/" + *p.Title
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkAnswer(t, name, a, state, used)
	}
}

func checkValues(t *testing.T, name string, values []string, err error, state string, used map[string]bool) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	empty(t, name, len(values) == 0, state, used)
}

func checkAnswer(t *testing.T, name string, a eval.Answer, state string, used map[string]bool) {
	t.Helper()
	empty(t, name, len(a.Cells()) == 0, state, used)
	names := map[string]bool{}
	for _, s := range a.Series {
		if names[s.Name] {
			t.Errorf("%s: two series are called %q", name, s.Name)
		}
		names[s.Name] = true
		if s.Name == "" && len(a.Series) > 1 {
			t.Errorf("%s: several series, and one has no name", name)
		}
		for _, p := range s.Points {
			if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
				t.Errorf("%s: %q is %v", name, s.Name, p.Value)
				break
			}
		}
	}
	for _, c := range a.Cells() {
		if math.IsNaN(c.Value) || math.IsInf(c.Value, 0) {
			t.Errorf("%s shows %v", name, c.Value)
		}
	}
	if a.Table != nil {
		checkRows(t, name, *a.Table)
	}
}

// No two rows of a table have the same labels: they would have been one.
func checkRows(t *testing.T, name string, g eval.Grid) {
	t.Helper()
	seen := map[string]bool{}
	for _, row := range g.Rows {
		var labels []string
		for i, c := range row {
			if g.Columns[i].Label {
				labels = append(labels, c.Text)
			}
		}
		if key := fmt.Sprint(labels); seen[key] {
			t.Errorf("%s: two rows of %s", name, key)
		} else {
			seen[key] = true
		}
	}
}

// empty checks what is empty against the table, both ways.
func empty(t *testing.T, name string, is bool, state string, used map[string]bool) {
	t.Helper()
	why, may := mayBeEmpty[name]
	may = may && slices.Contains(strings.Fields(why.in), state)
	if is && !may {
		t.Errorf("%s is empty", name)
	}
	if is && may {
		used[name] = true
	}
}

// why a panel or a variable may have nothing to show, and in which states.
type why struct{ in, reason string }
