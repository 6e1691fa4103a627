package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/deploy/chart"
)

// Kind is the kind of a block. It decides how the block is checked.
type Kind string

// Kinds.
const (
	Manifest Kind = "manifest" // sent to the API server, with strict validation and dry run
	File     Kind = "file"     // read by the program that it is for; see FileName
	JSON     Kind = "json"     // parsed; one value, or one a line
	Query    Kind = "query"    // parsed; its names must exist
	Counters Kind = "counters" // read by the exporter
	Commands Kind = "commands" // programs, flags and the objects named in them are looked up
	Output   Kind = "output"   // not checked: a program's output, or a drawing
)

// Programs are the words by which an indented block is recognized as commands: each part of a pipeline must
// begin with one of them.
var Programs = []string{
	"kubectl", "helm", "make", "go", "curl",
	"gpuscale-exporter", "gpuscale-adapter", "gpuscale-autoscaler", "gpuscale-agent", "gpuscale-report", "gpuscale-dashboards", "gpuscale-sandbox",
	// Commands in pipes.
	"head", "tail", "grep", "sort", "xargs", "base64", "diff", "cat", "echo", "export", "jq", "column", "wc", "cut",
	"git", "kind", "sha256sum", "tar", "crane", "docker", "skopeo", "promtool", "nvidia-smi", "sudo", "apt-get", "ssh",
}

// Kind returns the kind of a block. It returns an error if the kind is unclear: a fenced block must have a
// language, and YAML must be API objects or name its file in the first comment.
func (b Block) Kind() (Kind, error) {
	if !b.Fenced {
		return b.indentedKind()
	}
	switch b.Lang {
	case "yaml", "yml":
		err := objects(b.Text)
		if err != nil && b.FileName() != "" {
			return File, nil
		}
		return Manifest, err
	case "json":
		return JSON, nil
	case "promql":
		return Query, nil
	case "csv":
		return Counters, nil
	case "sh", "bash", "console":
		return Commands, nil
	case "text", "mermaid":
		return Output, nil
	case "":
		return "", errors.New("a fence without a language: yaml, json, promql, csv, sh, or text for what is printed")
	}
	return "", fmt.Errorf("nothing judges the language %q", b.Lang)
}

// flagged matches text that looks like a command: a plain word, followed somewhere by a flag.
var flagged = regexp.MustCompile(`^[a-z][a-z0-9_./-]*( \S+)* --?[a-z]`)

func (b Block) indentedKind() (Kind, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(b.Text), "\n")
	word, _, _ := strings.Cut(first, " ")
	switch {
	case word == "$", slices.Contains(Programs, word):
		return Commands, nil
	case strings.HasPrefix(first, "{"):
		return JSON, nil
	case strings.HasPrefix(word, "DCGM_") && strings.HasSuffix(word, ","):
		return Counters, nil
	case flagged.MatchString(first):
		return "", fmt.Errorf("it looks like a command of an unknown program %q: add it to Programs, or fence the block as text", word)
	}
	return Output, nil
}

var fileName = regexp.MustCompile(`^#\s+(?:\S*/)?([\w.-]+\.(?:ya?ml|csv))(?:[\s:,].*)?$`)

// FileName returns the file name in the comment of the first line; empty if there is none.
func (b Block) FileName() string {
	first, _, _ := strings.Cut(b.Text, "\n")
	if m := fileName.FindStringSubmatch(strings.TrimSpace(first)); m != nil {
		return m[1]
	}
	return ""
}

// objects returns nil if each document in the text is an API object.
func objects(text string) error {
	all, err := chart.Objects([]byte(text))
	if err != nil {
		return err
	}
	for i, o := range all {
		if o.GetAPIVersion() == "" || o.GetKind() == "" {
			return fmt.Errorf("document %d is no object of an API: it needs apiVersion and kind, or a first line \"# NAME.yaml\" with the name of its file", i+1)
		}
	}
	if len(all) == 0 {
		return errors.New("there is nothing in it")
	}
	return nil
}

// CheckJSON parses a block: one value, or one a line.
func (b Block) CheckJSON() error {
	if validJSON([]byte(b.Text)) == nil {
		return nil
	}
	for i, line := range bytes.Split([]byte(strings.TrimSpace(b.Text)), []byte("\n")) {
		if err := validJSON(line); err != nil {
			return fmt.Errorf("line %d: %w", b.Line+i, err)
		}
	}
	return nil
}

func validJSON(text []byte) error {
	var v any
	return json.Unmarshal(text, &v)
}
