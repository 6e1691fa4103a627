package observe

import (
	"fmt"
	"strings"
	"text/scanner"

	resourcev1 "k8s.io/api/resource/v1"
)

// selected is what CEL selectors require of a device, as far as they have the forms that drivers
// document: equalities joined by &&.
type selected struct {
	driver     string
	attributes map[string]map[string]string // by domain and name
	unread     error                        // the first selector of another form
}

// readSelectors reads the selectors of a device class and of a request together: a device must
// satisfy all of them.
func readSelectors(lists ...[]resourcev1.DeviceSelector) selected {
	s := selected{attributes: map[string]map[string]string{}}
	size := 0
	for _, list := range lists {
		for _, one := range list {
			if one.CEL != nil {
				size += len(one.CEL.Expression)
			}
			if size > maxSelectors {
				s.fail(fmt.Errorf("selectors of more than %d bytes", maxSelectors))
				return s
			}
			if one.CEL == nil {
				s.fail(fmt.Errorf("a selector that is not CEL"))
				continue
			}
			s.expression(one.CEL.Expression)
		}
	}
	return s
}

func (s *selected) fail(err error) {
	if s.unread == nil {
		s.unread = err
	}
}

// expression reads one expression. Terms beside an unsupported one are read too, since a device
// must satisfy them as well; the driver above all.
func (s *selected) expression(text string) {
	for _, term := range conjunction(tokens(text), 0) {
		if !s.term(term) {
			s.fail(fmt.Errorf("selector %q: %q is not supported", shortened(strings.TrimSpace(text)), shortened(strings.Join(term, " "))))
		}
	}
}

// shortened bounds the text of a selector in an error, which is in a condition of each of its pods.
func shortened(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// tokens splits an expression into words, quoted strings and signs; "==", "&&" and "||" are one
// token. Input that is not CEL gives tokens that match no form.
func tokens(text string) []string {
	var sc scanner.Scanner
	sc.Init(strings.NewReader(text))
	sc.Mode = scanner.ScanIdents | scanner.ScanInts | scanner.ScanStrings
	sc.Error = func(*scanner.Scanner, string) {}
	var out []string
	for t := sc.Scan(); t != scanner.EOF; t = sc.Scan() {
		word := sc.TokenText()
		if word == "'" { // Go's scanner knows only double quotes as strings
			word = "'" + untilQuote(&sc)
		}
		if n := len(out) - 1; n >= 0 && len(word) == 1 && strings.Contains("=&|", word) && out[n] == word {
			out[n] += word
			continue
		}
		out = append(out, word)
	}
	return out
}

func untilQuote(sc *scanner.Scanner) string {
	var b strings.Builder
	for r := sc.Next(); r != scanner.EOF; r = sc.Next() {
		b.WriteRune(r)
		if r == '\'' {
			break
		}
	}
	return b.String()
}

const maxNested = 16 // brackets in brackets

// conjunction splits tokens at every top-level &&. An alternative or a conditional binds looser,
// and makes none of its parts certain. What is nested deeper than maxNested is one term: each level
// reads all words again.
func conjunction(words []string, nested int) [][]string {
	for len(words) > 1 && words[0] == "(" && closing(words) == len(words)-1 {
		if nested++; nested > maxNested {
			return [][]string{words}
		}
		words = words[1 : len(words)-1]
	}
	var parts [][]string
	depth, from := 0, 0
	for i, w := range words {
		switch {
		case opens(w):
			depth++
		case closes(w):
			depth--
		case depth == 0 && (w == "||" || w == "?"):
			return [][]string{words}
		case depth == 0 && w == "&&":
			parts = append(parts, words[from:i])
			from = i + 1
		}
	}
	if len(parts) == 0 {
		return [][]string{words}
	}
	var out [][]string
	for _, part := range append(parts, words[from:]) {
		out = append(out, conjunction(part, nested)...)
	}
	return out
}

// closing returns the index of the bracket that closes the first one, -1 for none.
func closing(words []string) int {
	depth := 0
	for i, w := range words {
		if opens(w) {
			depth++
		} else if closes(w) {
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func opens(word string) bool { return word == "(" || word == "[" || word == "{" }

func closes(word string) bool { return word == ")" || word == "]" || word == "}" }

// term reads one term, false for an unsupported form. Supported are an equality in either order,
// and membership in a list of one.
func (s *selected) term(words []string) bool {
	domain, name, rest := path(words)
	if name == "" && len(words) > 2 && words[1] == "==" { // literal == path
		var tail []string
		if domain, name, tail = path(words[2:]); len(tail) > 0 {
			return false
		}
		rest = []string{"==", words[0]}
	}
	if len(rest) == 4 && rest[0] == "in" && rest[1] == "[" && rest[3] == "]" {
		rest = []string{"==", rest[2]}
	}
	if name == "" || len(rest) != 2 || rest[0] != "==" {
		return false
	}
	value, ok := literal(rest[1])
	if !ok {
		return false
	}
	return s.equal(domain, name, value)
}

// equal records the value of an attribute, or of the driver without a domain; false if it has
// another value already.
func (s *selected) equal(domain, name, value string) bool {
	if domain == "" {
		if value == "" || s.driver != "" && s.driver != value {
			return false
		}
		s.driver = value
		return true
	}
	if s.attributes[domain] == nil {
		s.attributes[domain] = map[string]string{}
	}
	if had, ok := s.attributes[domain][name]; ok && had != value {
		return false
	}
	s.attributes[domain][name] = value
	return true
}

// path reads device.driver, which has no domain, or device.attributes['domain'].name, and returns
// the tokens after it; no name for neither.
func path(words []string) (domain, name string, rest []string) {
	if len(words) >= 3 && strings.Join(words[:3], "") == "device.driver" {
		return "", "driver", words[3:]
	}
	if len(words) < 8 || strings.Join(words[:4], "") != "device.attributes[" || words[5] != "]" {
		return "", "", nil
	}
	domain, ok := literal(words[4])
	if !ok || domain == "" {
		return "", "", nil
	}
	switch {
	case words[6] == ".":
		return domain, words[7], words[8:]
	case words[6] == "[" && len(words) > 8 && words[8] == "]":
		if name, ok = literal(words[7]); ok {
			return domain, name, words[9:]
		}
	}
	return "", "", nil
}

// literal reads a quoted string without escapes.
func literal(word string) (string, bool) {
	n := len(word)
	if n < 2 || word[0] != '\'' && word[0] != '"' || word[n-1] != word[0] || strings.ContainsRune(word, '\\') {
		return "", false
	}
	return word[1 : n-1], true
}
