package doctor

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths of untrusted text in output.
const (
	maxText    = 600
	maxName    = 120
	maxCommand = 2000
)

// Clean makes untrusted text safe to print: one line, no control characters, no terminal
// escapes, no change of writing direction, at most limit characters.
func Clean(text string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n == limit {
			b.WriteString("…")
			break
		}
		n++
		switch {
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case r == utf8.RuneError, !unicode.IsPrint(r):
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// pasteable reports whether a word may be part of a command: invisible characters must
// not be pasted.
func pasteable(word string) bool {
	return utf8.ValidString(word) && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) })
}

// bare are the characters without a meaning in any shell.
const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"

// quote writes a word for a POSIX shell.
func quote(word string) string {
	if word != "" && strings.Trim(word, bare) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// command joins words for a shell; empty where a word cannot be pasted, or the command
// is too long to review.
func command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if !pasteable(w) {
			return ""
		}
		quoted[i] = quote(w)
	}
	line := strings.Join(quoted, " ")
	if len(line) > maxCommand {
		return ""
	}
	return line
}
