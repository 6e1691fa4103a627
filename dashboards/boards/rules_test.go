package boards_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/dashboards/states"
)

// records are the names that the rules record.
func records() []string {
	var all []string
	for _, r := range rules.All() {
		all = append(all, r.Record)
	}
	return all
}

func isRecord(name string) bool { return strings.Count(name, ":") == 2 }

// Every rule that a board reads is in the file, every rule of the file is read by a
// board, and every group has a tile, which shows whether it is loaded.
func TestRulesOfBoards(t *testing.T) {
	file, err := os.ReadFile("../../deploy/chart/gpuscale/files/recording.yaml")
	if err != nil {
		t.Fatal(err)
	}
	read, tiled := map[string]bool{}, map[string]bool{}
	for _, b := range boards.All() {
		for _, p := range panels(b) {
			for i := range p.Queries {
				for _, name := range slices.DeleteFunc(familiesOf(t, b, p, i), func(name string) bool { return !isRecord(name) }) {
					if read[name] = true; p.Title == "Recording rules" {
						tiled[group(name)] = true
					} else if b.UID == boards.OverviewUID {
						t.Errorf("%s/%s reads %s: where the exporter alone is installed there are no rules", b.UID, p.Title, name)
					}
					if !strings.Contains(string(file), "- record: "+name+"\n") {
						t.Errorf("%s/%s reads %s, which no rule records", b.UID, p.Title, name)
					}
				}
			}
		}
	}
	for name := range read {
		if !tiled[group(name)] {
			t.Errorf("no tile shows whether the rules of %s are loaded, of which %s is read", group(name), name)
		}
	}
	for _, name := range records() {
		if !read[name] {
			t.Errorf("no board reads %s: Prometheus would record it for nothing", name)
		}
	}
}

// group is the name of the group that has a rule.
func group(record string) string {
	for _, g := range rules.Groups() {
		if slices.ContainsFunc(g.Rules, func(r rules.Rule) bool { return r.Record == record }) {
			return g.Name
		}
	}
	return ""
}

// Where the rules are not loaded their tiles show it, and their readers show nothing in the
// colour for good, and state that the rules may be missing.
func TestWithoutTheRules(t *testing.T) {
	for _, s := range states.All() {
		src, w := eval.Engine(s.Storage(false)), window(s)
		for _, b := range boards.All() {
			for _, p := range panels(b) {
				var from []string
				for i := range p.Queries {
					from = append(from, familiesOf(t, b, p, i)...)
				}
				if !slices.ContainsFunc(from, isRecord) {
					continue
				}
				a, err := eval.Ask(t.Context(), src, p, eval.All(b), w)
				if err != nil {
					t.Fatal(err)
				}
				checkWithoutRules(t, b.UID+"/"+p.Title, p.Description(), a.Cells())
			}
		}
	}
}

func checkWithoutRules(t *testing.T, name, about string, cells []eval.Cell) {
	t.Helper()
	if strings.HasSuffix(name, "/Recording rules") {
		for _, c := range cells {
			if c.Text != "missing" || c.Colour != board.Watch {
				t.Errorf("without the rules %s shows %+v", name, c)
			}
		}
		if len(cells) < 2 {
			t.Errorf("%s shows %d values of the rules", name, len(cells))
		}
		return
	}
	if !strings.Contains(about, "rules are not loaded") {
		t.Errorf("%s does not state that the rules may be missing", name)
	}
	for _, c := range cells {
		if c.Known && c.Colour == board.Good {
			t.Errorf("%s: %q in the colour for good without the rules", name, c.Text)
		}
	}
}
