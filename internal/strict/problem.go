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

// badDuration is Go's or Prometheus' message about text that is no duration.
var badDuration = regexp.MustCompile(`time: (invalid|unknown unit|missing unit)|not a valid duration string`)

// Example adds an example to an error about a duration, of a file or a flag.
func Example(err error) error {
	if err == nil || !badDuration.MatchString(err.Error()) {
		return err
	}
	return fmt.Errorf("%w: want a time such as 30s, 5m or 1h30m", err)
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
var fieldPath = regexp.MustCompile(`^[a-zA-Z_]\w*(\[\d+\])?(\.[\w-]+(\[\d+\])?)*: `)

// Problems parses the messages "path: what" of a validation and finds each
// path's line. below is the path of node.
func (d *Document) Problems(node *yaml.Node, below string, err error) (all []Problem) {
	for _, rest := range Single(err) {
		p := Problem{File: d.Name, Path: below, Err: errors.New(rest)}
		at, found := node, true
		if node != nil {
			p.Line = node.Line
		}
		// The first colon ends the path, but a path within the path may follow:
		// "matchers[0]: op: is …".
		for found && fieldPath.MatchString(rest) {
			path, after, _ := strings.Cut(rest, ": ")
			var line int
			at, line, found = lookup(at, path)
			p.Line = cmp.Or(line, p.Line)
			p.Path, p.Err, rest = dotted(p.Path, path), errors.New(after), after
		}
		all = append(all, p)
	}
	return all
}

// With adds the problems of the whole file's validation to those of reading it. A field that could
// not be read has its default, and so have those in it: they are left out.
func (d *Document) With(read []Problem, err error) []Problem {
	for _, p := range d.Problems(d.Root, "", err) {
		unread := func(r Problem) bool {
			below, in := strings.CutPrefix(p.Path, r.Path)
			return in && (below == "" || strings.ContainsAny(below[:1], ".["))
		}
		if !slices.ContainsFunc(read, unread) {
			read = append(read, p)
		}
	}
	return read
}

// Single splits joined problems. A prefix of the whole error is repeated before
// each.
func Single(err error) []string {
	var joined interface {
		error
		Unwrap() []error
	}
	if err == nil {
		return nil
	}
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	before := strings.TrimSuffix(err.Error(), joined.Error())
	var out []string
	for _, e := range joined.Unwrap() {
		for _, problem := range Single(e) {
			out = append(out, before+problem)
		}
	}
	return out
}

// Under returns the problems joined in err, with a path before the path of each.
func Under(path string, err error) (all []error) {
	for _, problem := range Single(err) {
		all = append(all, errors.New(path+"."+problem))
	}
	return all
}

// dotted joins two paths.
func dotted(a, b string) string {
	if a == "" {
		return b
	}
	return a + "." + b
}

// lookup follows a path as far as the nodes go. deepest is the last node found, line the
// line of its key or element, 0 for n itself. found reports whether the whole path exists.
func lookup(n *yaml.Node, path string) (deepest *yaml.Node, line int, found bool) {
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		if i, err := strconv.Atoi(part); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
			n, line = Resolve(n.Content[i]), n.Content[i].Line
			continue
		}
		key, child := Entry(n, part)
		if child == nil {
			return n, line, false
		}
		n, line = Resolve(child), key.Line
	}
	return n, line, true
}
