package strict

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem of one field.
type Problem struct {
	File string
	Line int // 0 if unknown, for example for a field missing from an empty file
	Path string
	Err  error
}

func (p Problem) Error() string {
	where := p.File
	if p.Line > 0 {
		where += ":" + strconv.Itoa(p.Line)
	}
	if p.Path == "" {
		return fmt.Sprintf("%s: %v", where, p.Err)
	}
	return fmt.Sprintf("%s: %s: %v", where, p.Path, p.Err)
}

// Join returns problems of a file as one error, in the order of the lines; nil if there are none.
func Join(problems []Problem) error {
	var errs []error
	for _, p := range slices.SortedStableFunc(slices.Values(problems), func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) }) {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// fieldPath matches the path at the beginning of a validation's message.
var fieldPath = regexp.MustCompile(`^[a-zA-Z_]\w*(\[\d+\])?(\.\w+(\[\d+\])?)*: `)

// Problems parses the messages "path: what" of a validation and finds each
// path's line. below is the path of node.
func (d *Document) Problems(node *yaml.Node, below string, err error) []Problem {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []Problem
		for _, e := range joined.Unwrap() {
			all = append(all, d.Problems(node, below, e)...)
		}
		return all
	}
	p := Problem{File: d.Name, Path: below, Err: err}
	if node != nil {
		p.Line = node.Line
	}
	// The first colon ends the path, but a path within the path may follow:
	// "matchers[0]: op: is …".
	for rest := err.Error(); fieldPath.MatchString(rest); {
		path, after, _ := strings.Cut(rest, ": ")
		deepest, at, found := lookup(node, path)
		if at != nil {
			p.Line = at.Line
		}
		node = deepest
		p.Path, p.Err, rest = Dotted(p.Path, path), errors.New(after), after
		if !found {
			break
		}
	}
	return []Problem{p}
}

// Dotted joins two paths.
func Dotted(a, b string) string {
	if a == "" {
		return b
	}
	return a + "." + b
}

// lookup follows a path as far as the nodes go: deepest is the last node, at the
// node whose line to report, and found whether that is the path's end.
func lookup(n *yaml.Node, path string) (deepest, at *yaml.Node, found bool) {
	at = n
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if i, err := strconv.Atoi(part); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
			n, at = Resolve(n.Content[i]), n.Content[i]
			continue
		}
		key, child := Entry(n, part)
		if child == nil {
			return n, at, false
		}
		n, at = Resolve(child), key
	}
	return n, at, true
}
