package doctor

import (
	"slices"
	"strings"
	"testing"
)

// TestJudge: what holds visits against what is expected must be able to say no.
func TestJudge(t *testing.T) {
	ok := check{ID: "leader", Title: "somebody leads", Result: "ok"}
	broken := check{ID: "leader", Title: "somebody leads", Result: "fault", Findings: []finding{{
		Severity: "fault", Object: "Lease a/b", Seen: "it is not there", Means: "nobody decides", Fix: "look", Commands: []string{"kubectl get lease b"},
	}}}
	blind := check{ID: "leader", Title: "somebody leads", Result: "unknown", Why: "no right to list leases"}
	visited := func(code int, change func(*report), checks ...check) visit {
		v := visit{code: code, report: report{Schema: documentSchema, Checks: checks}}
		for _, c := range checks {
			if v.Faults += len(c.Findings); c.Result == "unknown" {
				v.Unknown++
			}
		}
		if change != nil {
			change(&v.report)
		}
		return v
	}
	for name, v := range map[string]visit{
		"":                         visited(exitNothing, nil, ok),
		"exit 0, want 4":           visited(exitNothing, nil, broken),
		"exit 4, want 3":           visited(exitFaults, nil, blind),
		"schema":                   visited(exitNothing, func(r *report) { r.Schema = "" }, ok),
		"it counts":                visited(exitFaults, func(r *report) { r.Faults = 7 }, broken),
		"twice":                    visited(exitNothing, nil, ok, ok),
		"no title":                 visited(exitNothing, nil, check{ID: "leader", Result: "ok"}),
		"does not say why":         visited(exitWarnings, nil, check{ID: "leader", Title: "x", Result: "unknown"}),
		"result ok with findings":  visited(exitFaults, nil, check{ID: "leader", Title: "x", Result: "ok", Findings: broken.Findings}),
		"result \"good\"":          visited(exitNothing, nil, check{ID: "leader", Title: "x", Result: "good"}),
		"leaves something out":     visited(exitFaults, nil, check{ID: "leader", Title: "x", Result: "fault", Findings: []finding{{Severity: "fault", Object: "x"}}}),
		"severity \"catastrophe\"": visited(exitNothing, nil, check{ID: "leader", Title: "x", Result: "ok", Findings: []finding{{Severity: "catastrophe"}}}),
	} {
		said := ""
		if err := v.check(); err != nil {
			said = err.Error()
		}
		if name == "" && said != "" || !strings.Contains(said, name) {
			t.Errorf("%q: %q", name, said)
		}
	}

	normal := visited(exitNothing, nil, ok)
	for _, now := range []check{broken, blind} {
		v := visited(exitFaults, nil, now)
		if len(v.worse(normal)) != 1 || len(normal.worse(v)) != 0 || len(v.worse(normal, "leader")) != 0 {
			t.Errorf("%s: worse %q", now.Result, v.worse(normal))
		}
	}
	b := &bed{normal: normal}
	expected := fault{check: "leader", objects: []string{"Lease a/b"}, says: "not there"}
	found := visited(exitFaults, nil, broken)
	if wrong := b.differs(found, expected); len(wrong) > 0 {
		t.Errorf("as expected, and yet: %q", wrong)
	}
	for what, change := range map[string]func(*fault, *visit){
		"another object":     func(f *fault, _ *visit) { f.objects = []string{"Lease a/c"} },
		"one object too few": func(f *fault, _ *visit) { f.objects = append(f.objects, "Lease a/c") },
		"seen otherwise":     func(f *fault, _ *visit) { f.says = "expired" },
		"another check":      func(f *fault, _ *visit) { f.check = "pool-problem" },
		"a check that is not to report": func(_ *fault, v *visit) {
			v.Checks = append(slices.Clone(v.Checks), check{ID: "crd-old", Result: "warning"})
		},
	} {
		f, v := expected, found
		change(&f, &v)
		if len(b.differs(v, f)) == 0 {
			t.Errorf("%s is not noticed", what)
		}
	}
}
