package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Statuses of a finding.
const (
	statusOK      = "ok"
	statusMissing = "missing" // the exporter runs without it
	statusFailed  = "failed"
)

// finding is what check found of one part.
type finding struct {
	Part   string `json:"part"`
	Status string `json:"status"`
	Found  string `json:"found,omitempty"`
	Why    string `json:"why,omitempty"`
	// Names of what is missing.
	Names []string `json:"names,omitempty"`
}

type findings []finding

// add records the result of a part, or why it failed.
func (f *findings) add(part, found string, err error) {
	if err != nil {
		*f = append(*f, finding{Part: part, Status: statusFailed, Why: err.Error()})
		return
	}
	*f = append(*f, finding{Part: part, Status: statusOK, Found: found})
}

func (f *findings) missing(part, why string, names ...string) {
	*f = append(*f, finding{Part: part, Status: statusMissing, Why: why, Names: names})
}

// print writes a line for each part, or one JSON object.
func (f findings) print(w io.Writer, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(struct {
			OK    bool     `json:"ok"`
			Parts findings `json:"parts"`
		}{f.verdict() == nil, f})
	}
	for _, x := range f {
		text := x.Found + x.Why
		if len(x.Names) > 0 {
			text += ": " + strings.Join(x.Names, " ")
		}
		status := x.Status
		if status == statusFailed {
			status = "FAILED"
		}
		if _, err := fmt.Fprintf(w, "%-9s %-7s %s\n", x.Part, status, text); err != nil {
			return err
		}
	}
	return nil
}

// Verdicts.
var (
	errCheckFailed = errors.New("check failed")
	errIncomplete  = errors.New("something that was asked for is missing")
)

func (f findings) verdict() error {
	var verdict error
	for _, x := range f {
		switch x.Status {
		case statusFailed:
			return errCheckFailed
		case statusMissing:
			verdict = errIncomplete
		}
	}
	return verdict
}

// exitStatus is the program's exit status for an error.
func exitStatus(err error) int {
	if errors.Is(err, errIncomplete) {
		return 2
	}
	return 1
}
