// Package text handles text from users and from other programs, and for them: it quotes for a shell, prints on one
// line, shortens lists, finds the word that was meant, and writes JSON.
package text

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Line makes text from others safe to print: on one line, without control characters, terminal
// escapes and changes of writing direction.
func Line(words string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, words)
}

// Lines is Line for a text of several lines. It keeps the line breaks.
func Lines(words string) string {
	lines := strings.Split(words, "\n")
	for i := range lines {
		lines[i] = Line(lines[i])
	}
	return strings.Join(lines, "\n")
}

// JSON writes a value for programs, indented. <, > and & are written as they are: users paste commands and queries.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// bare are the characters without a meaning in any shell.
const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"

// Quote writes a word for a POSIX shell.
func Quote(word string) string {
	if word != "" && strings.Trim(word, bare) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Several joins at most most names for a sentence, and says how many more there
// are.
func Several(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// Thousands puts commas into a decimal number.
func Thousands(decimal string) string {
	for i := strings.IndexByte(decimal+".", '.') - 3; i > 0 && decimal[i-1] != '-'; i -= 3 {
		decimal = decimal[:i] + "," + decimal[i:]
	}
	return decimal
}

// Short cuts a text to at most most bytes of valid UTF-8.
func Short(text string, most int) string {
	const more = " …"
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) > most {
		text = strings.ToValidUTF8(text[:most-len(more)], "") + more
	}
	return text
}

// Distance counts the letters to change, add or remove, as Levenshtein does.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := above
			if a[i] != b[j] {
				cost++
			}
			above = row[j+1]
			row[j+1] = min(cost, row[j]+1, above+1)
		}
	}
	return row[len(b)]
}
