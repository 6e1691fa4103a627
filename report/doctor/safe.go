package doctor

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths of what is printed of other people's text.
const (
	maxText    = 600
	maxName    = 120
	maxCommand = 2000
)

// Clean makes other people's text safe to print: one line, no control characters,
// no terminal escapes, nothing that turns the direction of writing, at most limit
// characters.
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

// pasteable reports whether a word may stand in a command at all: what cannot be
// seen must not be pasted.
func pasteable(word string) bool {
	return utf8.ValidString(word) && !strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) })
}

// bare are the characters that no shell gives a meaning to.
const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"

// quote writes a word for a POSIX shell.
func quote(word string) string {
	if word != "" && strings.Trim(word, bare) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// command joins words for a shell; empty where a word cannot be pasted, or all of
// it is too long to be read before it is.
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
