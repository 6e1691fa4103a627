package mig

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/gpuscale/gpuscale/gpu"
)

// products has the tables of all GPUs whose placements are known: a Spec a line, as nodes publish it.
//
//go:embed products.txt
var products string

// known yields each product and its line.
func known(yield func(model, line string) bool) {
	for line := range strings.Lines(products) {
		if model, _, ok := strings.Cut(line, " "); ok && model != "#" && !yield(model, line) {
			return
		}
	}
}

// ForModel returns the table of a product, by our name ("H100-80GB") or any
// spelling that gpu.ParseProduct knows. It is false for a product without MIG and
// for an unknown one.
func ForModel(name string) (*Table, bool) {
	table, ok := tables()[name]
	if !ok {
		model, _ := gpu.ParseProduct(name)
		table, ok = tables()[model.Name]
	}
	if !ok {
		return nil, false
	}
	return table(), true
}

// Models returns the names of all products that have a table, in a fixed order.
func Models() (names []string) {
	for model := range known {
		names = append(names, model)
	}
	return names
}

// tables by model. Each is built when it is first asked for, since a program reads few of
// them, and never changes. Tests check that all can be built.
var tables = sync.OnceValue(func() map[string]func() *Table {
	all := map[string]func() *Table{}
	for model, line := range known {
		all[model] = sync.OnceValue(func() *Table {
			s, _ := ParseSpec(line)
			t, _ := NewTable(s)
			return t
		})
	}
	return all
})
