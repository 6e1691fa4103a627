// Package csv writes the report's tables as CSV, one file each: names and figures
// for machines, unknown figures empty.
package csv

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/render"
)

// Names of all tables the report has.
func Names(r model.Report) []string {
	var names []string
	for _, s := range render.Sections(r) {
		for _, t := range s.Tables {
			names = append(names, t.Name)
		}
	}
	return names
}

// ErrNoTable is for a table the report does not have.
var ErrNoTable = errors.New("no such table")

// Write writes one table.
func Write(w io.Writer, r model.Report, name string) error {
	for _, s := range render.Sections(r) {
		for _, t := range s.Tables {
			if t.Name == name {
				return table(w, t)
			}
		}
	}
	return fmt.Errorf("%w: %q; there are %s", ErrNoTable, name, strings.Join(Names(r), ", "))
}

// WriteAll writes every table into a folder, which it makes if need be.
func WriteAll(folder string, r model.Report) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	for _, name := range Names(r) {
		f, err := os.Create(filepath.Join(folder, name+".csv"))
		if err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
		if err := errors.Join(Write(f, r, name), f.Close()); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
	}
	return nil
}

func table(w io.Writer, t render.Table) error {
	c := csv.NewWriter(w)
	var head []string
	for _, column := range t.Columns {
		head = append(head, Safe(column.Name))
	}
	rows := [][]string{head}
	for _, row := range t.Rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, Safe(cell.Raw))
		}
		rows = append(rows, cells)
	}
	if err := c.WriteAll(rows); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// Safe keeps a spreadsheet from reading text as a formula: text that begins like one and
// is not a number gets a quote in front.
func Safe(cell string) string {
	trimmed := strings.TrimLeft(cell, " \u00a0")
	if trimmed == "" || !strings.ContainsAny(trimmed[:1], "=+-@\t\r\n|%") && !strings.HasPrefix(trimmed, "＝") && !strings.HasPrefix(trimmed, "＋") && !strings.HasPrefix(trimmed, "－") && !strings.HasPrefix(trimmed, "＠") {
		return cell
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil {
		return cell
	}
	return "'" + cell
}
