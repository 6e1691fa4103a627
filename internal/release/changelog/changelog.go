package changelog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Unreleased is the name of the section that collects what is to come.
const Unreleased = "Unreleased"

// Section is one release.
type Section struct {
	Version string // "0.1.0", or Unreleased
	Date    string // "2026-11-22"; empty for Unreleased
	Body    string // Markdown without the heading, trimmed
}

var (
	heading = regexp.MustCompile(`^## (\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?) / (\d{4}-\d{2}-\d{2})$`)
	entry   = regexp.MustCompile(`^- \[(FEATURE|ENHANCEMENT|BUGFIX|CHANGE|SECURITY)\] \S`)
)

// Parse returns the sections in their order. All problems are reported, each
// with its line.
func Parse(text string) ([]Section, error) {
	var sections []Section
	var problems []string
	problem := func(line int, format string, a ...any) {
		problems = append(problems, fmt.Sprintf("line %d: ", line+1)+fmt.Sprintf(format, a...))
	}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		switch {
		case strings.HasPrefix(line, "## "):
			s, ok := parseHeading(line)
			if !ok {
				problem(i, "%q: want \"## Unreleased\" or \"## 1.2.3 / 2026-11-22\"", line)
			}
			if slices.ContainsFunc(sections, func(o Section) bool { return o.Version == s.Version }) {
				problem(i, "a second section %s", s.Version)
			}
			if s.Version == Unreleased && len(sections) > 0 {
				problem(i, "Unreleased must be the first section")
			}
			sections = append(sections, s)
		case len(sections) == 0:
			// What stands before the first section is about the file.
		default:
			if strings.HasPrefix(line, "- ") && !entry.MatchString(line) {
				problem(i, "%.40q: an entry begins with [FEATURE], [ENHANCEMENT], [BUGFIX], [CHANGE] or [SECURITY]", line)
			}
			last := &sections[len(sections)-1]
			last.Body += line + "\n"
		}
	}
	for i := range sections {
		sections[i].Body = strings.Trim(sections[i].Body, "\n")
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("the changelog:\n  %s", strings.Join(problems, "\n  "))
	}
	return sections, nil
}

func parseHeading(line string) (Section, bool) {
	if line == "## "+Unreleased {
		return Section{Version: Unreleased}, true
	}
	m := heading.FindStringSubmatch(line)
	if m == nil {
		return Section{Version: strings.TrimPrefix(line, "## ")}, false
	}
	return Section{Version: m[1], Date: m[2]}, true
}

// Notes returns the section of a version. A section that is missing or empty is
// an error.
func Notes(sections []Section, version string) (Section, error) {
	i := slices.IndexFunc(sections, func(s Section) bool { return s.Version == version })
	if i < 0 {
		return Section{}, fmt.Errorf("CHANGELOG.md has no section %q: rename Unreleased to \"## %s / DATE\" and begin a new Unreleased", version, version)
	}
	if sections[i].Body == "" {
		return Section{}, fmt.Errorf("CHANGELOG.md has nothing in section %q", version)
	}
	return sections[i], nil
}
