package scenario

import "slices"

// LineOf finds the last line of a text about a subject: by the verb that
// declares it, such as "pod", and its name, which may be one of a range. With
// an empty name it is the last line of the verb. It is 0 for none, and for an
// invalid text.
func LineOf(text, verb, name string) int {
	statements, err := split(text)
	if err != nil {
		return 0
	}
	found := 0
	for i := range statements {
		if s := &statements[i]; s.verb == verb && (name == "" || s.about(name)) {
			found = s.line
		}
	}
	return found
}

func (s *statement) about(name string) bool {
	if len(s.words) == 0 {
		return false
	}
	if s.words[0] == name {
		return true
	}
	if s.verb != "pod" || s.quoted {
		return false
	}
	keys, err := expand(s.words[0])
	return err == nil && slices.Contains(keys, name)
}
