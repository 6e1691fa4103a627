package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/strict"
)

// document is a file of this program's configuration.
type document struct{ *strict.Document }

// File is a configuration as read. A rule with problems is in Rules only, so that
// it affects no other rule.
type File struct {
	Name string
	// Config without its rules.
	Config Config
	// Rules are the built-in ones, or their replacements, and then the file's
	// others, in its order.
	Rules []Declared
}

// Declared is a rule of the file or a built-in one.
type Declared struct {
	// Name as written; may be empty or invalid if there are problems.
	Name string
	Path string // "rules[3]"; "" for a built-in one
	Line int    // 0 for a built-in one
	Rule signal.Rule
	// Problems: if there are any, Rule is not to be used.
	Problems []strict.Problem
}

// At is the rule's line in a file, or "built in".
func (d Declared) At(file string) string {
	if d.Line == 0 {
		return "built in"
	}
	return fmt.Sprintf("%s:%d", file, d.Line)
}

// Title is the rule's name, or its place in the file.
func (d Declared) Title() string { return cmp.Or(d.Name, d.Path) }

// Load reads the file of a path, and returns its text too.
func Load(path string, overlays ...func(*Config)) (f *File, raw []byte, err error) {
	if path == "" {
		return nil, nil, errors.New("--config is required: a file that says where Prometheus is, such as prometheus: {url: http://prometheus:9090}")
	}
	if raw, err = os.ReadFile(path); err != nil {
		return nil, nil, fmt.Errorf("reading configuration: %w", err)
	}
	f, err = Read(path, raw, overlays...)
	return f, raw, err
}

// Read reads a file over the defaults, and applies the overlays of flags. With an
// error nothing of the file may be used: it has a problem that is not a rule's, and
// the error joins all of them. It does not read the files that the configuration names.
func Read(name string, raw []byte, overlays ...func(*Config)) (*File, error) {
	parsed, err := strict.Parse(name, raw)
	if err != nil {
		return nil, err
	}
	d := document{parsed}
	if err := cmp.Or(d.Alone(), d.foreign()); err != nil {
		return nil, err
	}
	f := &File{Name: name, Config: Default()}
	var rules []*yaml.Node
	var problems []strict.Problem
	theirs := d.theirs()
	if theirs {
		f.Config.PrometheusAdapter.ConfigFile = name
		problems = d.mixed()
	} else {
		rules, problems = d.List("rules")
		problems = append(problems, d.Fields(d.Root, "", &f.Config, "rules")...)
	}
	for _, overlay := range overlays {
		overlay(&f.Config)
	}
	if theirs && f.Config.Prometheus.URL == "" {
		problems = append(problems, strict.Problem{File: name, Path: "prometheus.url", Err: errors.New("is required; with a prometheus-adapter file, set --prometheus-url")})
	}
	problems = d.With(problems, f.Config.validate())
	f.Rules = d.rules(rules, f.Config)
	if len(problems) > 0 {
		return nil, strict.Join(append(problems, f.problems()...))
	}
	return f, nil
}

// Err joins the problems of all rules; nil if there are none.
func (f *File) Err() error { return strict.Join(f.problems()) }

func (f *File) problems() (all []strict.Problem) {
	for _, r := range f.Rules {
		all = append(all, r.Problems...)
	}
	return all
}

// Signals returns the rules that can be used.
func (f *File) Signals() []signal.Rule {
	var good []signal.Rule
	for _, r := range f.Rules {
		if len(r.Problems) == 0 {
			good = append(good, r.Rule)
		}
	}
	return good
}

// rules reads the rules, each separately. The built-in ones come first, and a
// rule of the same name replaces one.
func (d document) rules(list []*yaml.Node, c Config) []Declared {
	var all []Declared
	at := map[string]int{}
	for _, r := range signal.Builtin(0) {
		at[r.Name] = len(all)
		c.age(&r)
		r.Exporters = trust.From(c.ExporterNamespaces)
		all = append(all, Declared{Name: r.Name, Rule: r})
	}
	for i, n := range list {
		r := d.rule(n, fmt.Sprintf("rules[%d]", i), c)
		place, known := at[r.Name]
		switch {
		case known && all[place].Path == "": // in a built-in one's place
			all[place] = r
			continue
		case known && r.Name != "":
			r.Problems = append(r.Problems, strict.Problem{
				File: d.Name, Line: r.Line, Path: r.Path + ".name", Err: fmt.Errorf("%q is declared twice: see line %d", r.Name, all[place].Line),
			})
			r.Name = ""
		}
		if r.Name != "" {
			at[r.Name] = len(all)
		}
		all = append(all, r)
	}
	return all
}

// theirFields are the top-level fields of prometheus-adapter's configuration.
var theirFields = []string{"rules", "externalRules", "resourceRules"}

// theirs reports whether the file is in prometheus-adapter's own format: each of
// its rules has a seriesQuery.
func (d document) theirs() bool {
	for _, field := range theirFields[1:] {
		if key, _ := strict.Entry(d.Root, field); key != nil {
			return true
		}
	}
	list, _ := d.List("rules")
	return slices.ContainsFunc(list, func(item *yaml.Node) bool {
		key, _ := strict.Entry(item, "seriesQuery")
		return key != nil
	})
}

// foreign returns an error for files that contain prometheus-adapter's
// configuration without being it: its ConfigMap and its chart's values.
func (d document) foreign() error {
	kind, what := strict.Entry(d.Root, "kind")
	if version, _ := strict.Entry(d.Root, "apiVersion"); kind != nil && version != nil {
		return strict.Problem{File: d.Name, Line: kind.Line, Path: "kind", Err: fmt.Errorf("this is a Kubernetes manifest of a %s; a configuration is the text under its data: mount it, and name the file", what.Value)}
	}
	_, rules := strict.Entry(d.Root, "rules")
	for _, field := range []string{"default", "custom", "external", "resource"} {
		if key, _ := strict.Entry(rules, field); key != nil {
			return strict.Problem{File: d.Name, Line: key.Line, Path: "rules." + field, Err: errors.New("these are values of prometheus-adapter's chart; a configuration is the config.yaml in the ConfigMap that it makes of them")}
		}
	}
	return nil
}

// mixed returns a problem for each field of this program in a file of
// prometheus-adapter's format.
func (d document) mixed() (problems []strict.Problem) {
	for i := 0; i+1 < len(d.Root.Content); i += 2 {
		if key := d.Root.Content[i]; !slices.Contains(theirFields, key.Value) {
			problems = append(problems, strict.Problem{
				File: d.Name, Line: key.Line, Path: key.Value,
				Err: errors.New("the rules here are in prometheus-adapter's format (seriesQuery); name this file in prometheusAdapter.configFile of another one"),
			})
		}
	}
	return problems
}
