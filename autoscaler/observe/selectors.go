package observe

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gpuscale/gpuscale/internal/text"
)

// selected is what CEL selectors require of a device, as far as they have the forms that drivers
// document: equalities joined by &&. The API server has compiled them.
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
			if one.CEL == nil {
				s.fail(fmt.Errorf("a selector that is not CEL"))
				continue
			}
			if size += len(one.CEL.Expression); size > maxSelectors {
				s.fail(fmt.Errorf("selectors of more than %d bytes", maxSelectors))
				return s
			}
			s.expression(one.CEL.Expression)
		}
	}
	return s
}

func (s *selected) fail(err error) { s.unread = cmp.Or(s.unread, err) }

// quoted is a string without escapes.
var quoted = regexp.MustCompile(`'[^'\\]*'|"[^"\\]*"`)

// expression reads one expression. Terms beside an unsupported one are read too, since a device
// must satisfy them as well; the driver above all.
func (s *selected) expression(expression string) {
	var literals []string
	masked := quoted.ReplaceAllStringFunc(expression, func(literal string) string { // as indices, so that their text is not read as operators
		literals = append(literals, literal[1:len(literal)-1])
		return "'" + strconv.Itoa(len(literals)-1) + "'"
	})
	if !s.conjunction(masked, literals, 0) {
		const most = 200 // the text is in a condition of each pod
		s.fail(fmt.Errorf("selector %q is not supported: want equalities joined by &&", text.Short(expression, most)))
	}
}

const maxNested = 16 // brackets in brackets: each level is read again

// conjunction reads the terms between every &&, and reports whether all were read.
func (s *selected) conjunction(text string, literals []string, nested int) bool {
	parts, all := conjuncts(text)
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if inner, ok := strings.CutPrefix(part, "("); ok && strings.HasSuffix(inner, ")") && nested < maxNested {
			all = s.conjunction(strings.TrimSuffix(inner, ")"), literals, nested+1) && all
		} else {
			all = s.term(part, literals) && all
		}
	}
	return all
}

// conjuncts splits an expression at every && outside of brackets. It is not ok with an alternative or a conditional
// outside of brackets: these bind looser, so no part is certain to hold.
func conjuncts(text string) (parts []string, ok bool) {
	depth, from := 0, 0
	for i, r := range text {
		switch {
		case strings.ContainsRune("([{", r):
			depth++
		case strings.ContainsRune(")]}", r):
			depth--
		case depth == 0 && (r == '|' || r == '?'):
			return nil, false
		case depth == 0 && i >= from && strings.HasPrefix(text[i:], "&&"):
			parts = append(parts, text[from:i])
			from = i + len("&&")
		}
		if depth < 0 { // as in "a) == (b"
			return nil, false
		}
	}
	return append(parts, text[from:]), true
}

// The supported terms are an equality in either order, and membership in a list of one. A path is
// device.driver or device.attributes['domain'].name; literals are their indices.
var (
	path  = `device\.(driver|attributes\['(\d+)'\](?:\.(\w+)|\['(\d+)'\]))`
	terms = []*regexp.Regexp{
		regexp.MustCompile(`^` + path + `\s*==\s*'(?P<is>\d+)'$`),
		regexp.MustCompile(`^'(?P<is>\d+)'\s*==\s*` + path + `$`),
		regexp.MustCompile(`^` + path + `\s+in\s*\[\s*'(?P<is>\d+)'\s*\]$`),
	}
)

// term reads one term, false for an unsupported form.
func (s *selected) term(text string, literals []string) bool {
	literal := func(index string) string {
		n, err := strconv.Atoi(index)
		if err != nil || n >= len(literals) {
			return ""
		}
		return literals[n]
	}
	for _, form := range terms {
		m := form.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		at := form.SubexpIndex("is")
		value := literal(m[at])
		if at == 1 {
			m = m[1:]
		}
		if m[1] == "driver" {
			return s.equal("", "", value)
		}
		domain, name := literal(m[2]), cmp.Or(m[3], literal(m[4]))
		return domain != "" && name != "" && s.equal(domain, name, value)
	}
	return false
}

// equal records the value of an attribute, or without a domain that of the driver; false if it has another value
// already.
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
