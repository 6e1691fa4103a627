package top

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/model"
)

// Forms of the output.
var Forms = []string{"table", "wide", "json", "yaml"}

// list is the JSON and YAML form.
type list struct {
	Schema int   `json:"schema"`
	Rows   []Row `json:"rows"`
}

// Write writes the rows, of a namespace or (empty) of all, in one of Forms.
func Write(w io.Writer, rows []Row, namespace, form string) error {
	if rows == nil {
		rows = []Row{}
	}
	switch form {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list{1, rows})
	case "yaml":
		raw, err := yaml.Marshal(list{1, rows})
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		_, err = w.Write(raw)
		return err
	}
	if len(rows) == 0 {
		nothing := "nothing is allocated"
		if namespace != "" {
			nothing += " to pods of the namespace " + text.Line(namespace)
		}
		_, err := io.WriteString(w, nothing+"\n")
		return err
	}
	return table(w, rows, form == "wide")
}

const dash = "–"

func table(w io.Writer, rows []Row, wide bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	write := func(line, more []string) {
		if wide {
			line = append(line, more...)
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	write([]string{"NAMESPACE", "POD", "NODE", "GPU", "SLICE", "STATE", "USE", "IDLE FOR", "MEMORY"}, []string{"CONTAINER", "MODEL", "UUID"})
	for _, r := range rows {
		line := []string{or(r.Namespace), or(r.Pod), r.Node, r.GPU, cmp.Or(r.Profile, "whole"), r.State, ratio(r.Busy), since(r.IdleSeconds), memory(r), or(r.Container), or(r.Model), r.UUID}
		for i := range line {
			line[i] = text.Line(line[i])
		}
		write(line[:9:9], line[9:])
	}
	return t.Flush()
}

func or(s string) string { return cmp.Or(s, dash) }

func ratio(v *float64) string {
	if v == nil {
		return model.None
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

func since(v *float64) string {
	if v == nil || *v <= 0 {
		return dash
	}
	return duration.HumanDuration(time.Duration(*v) * time.Second)
}

func memory(r Row) string {
	const gib = 1 << 30
	switch {
	case r.MemoryUsed == nil:
		return model.None
	case r.MemoryTotal == nil:
		return fmt.Sprintf("%.1f GiB", *r.MemoryUsed/gib)
	}
	return fmt.Sprintf("%.1f/%.0f GiB", *r.MemoryUsed/gib, *r.MemoryTotal/gib)
}
