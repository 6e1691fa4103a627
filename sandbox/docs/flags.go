package docs

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Help returns a program's --help output after some subcommands. ok is false if the last of them is not a
// subcommand.
type Help func(program string, subcommands []string) (text string, ok bool)

var (
	flagInHelp    = regexp.MustCompile(`(?m)(?:^|[\s,(])(--?[A-Za-z][A-Za-z0-9-]*)`)
	commandInHelp = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*)(?:  |$)`)
)

// checkFlags returns an error for unknown flags of one of our programs. words is the command line, beginning
// with the program.
func checkFlags(words []string, help Help) error {
	program, rest := words[0], words[1:]
	before := 0 // flags and their values before the subcommand
	for before < len(rest) && strings.HasPrefix(rest[before], "-") {
		if slices.Contains([]string{"-n", "--namespace", "--context", "--kubeconfig", "-f", "--config"}, rest[before]) {
			before++
		}
		before = min(before+1, len(rest))
	}
	rest = append(slices.Clone(rest[before:]), rest[:before]...)
	text, ok := help(program, nil)
	if !ok {
		return fmt.Errorf("%s does not answer to --help", program)
	}
	var subcommands []string
	for len(rest) > 0 && has(commandInHelp, text, rest[0]) {
		subcommands = append(subcommands, rest[0])
		if text, ok = help(program, subcommands); !ok {
			return fmt.Errorf("%s %s does not answer to --help", program, strings.Join(subcommands, " "))
		}
		rest = rest[1:]
	}
	if commandInHelp.MatchString(text) && len(subcommands) == 0 && before == 0 && len(rest) > 0 && plain.MatchString(rest[0]) {
		return fmt.Errorf("%s has no command %q", program, rest[0])
	}
	known := map[string]bool{"--help": true, "-h": true}
	for _, m := range flagInHelp.FindAllStringSubmatch(text, -1) {
		known[m[1]] = true
	}
	for _, w := range rest {
		if w == "--" {
			break
		}
		name, _, _ := strings.Cut(w, "=")
		if !given.MatchString(name) || known[name] {
			continue
		}
		return fmt.Errorf("%s has no flag %s, only %s", strings.Join(append([]string{program}, subcommands...), " "), name, strings.Join(slices.Sorted(maps.Keys(known)), " "))
	}
	return nil
}

var (
	plain = regexp.MustCompile(`^[a-z][a-z-]*$`)
	given = regexp.MustCompile(`^--?[A-Za-z][A-Za-z0-9-]*$`)
)

func has(re *regexp.Regexp, text, want string) bool {
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		if m[1] == want {
			return true
		}
	}
	return false
}
