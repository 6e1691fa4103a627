package replay

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// split splits a line into words at blanks. Within double quotes (Go syntax) a
// word may hold blanks; the quotes stay. A comment begins with '#' at a word's
// start.
func split(line string) ([]string, *Error) {
	var words []string
	for rest := strings.TrimSpace(line); rest != "" && rest[0] != '#'; rest = strings.TrimSpace(rest) {
		end := 0
		for end < len(rest) && rest[end] != ' ' && rest[end] != '\t' {
			if rest[end] != '"' {
				end++
				continue
			}
			quoted, err := strconv.QuotedPrefix(rest[end:])
			if err != nil {
				return nil, &Error{Field: rest[:end], Reason: "the double quote does not close"}
			}
			end += len(quoted)
		}
		words = append(words, rest[:end])
		rest = rest[end:]
	}
	return words, nil
}

// unquote returns the text of a value and whether it stood in quotes.
func unquote(text string) (string, bool, error) {
	if !strings.HasPrefix(text, `"`) {
		return text, false, nil
	}
	plain, err := strconv.Unquote(text)
	return plain, true, err
}

func parseValue(name, text string) (collect.Value, *Error) {
	plain, quoted, err := unquote(text)
	if err != nil {
		return collect.Value{}, &Error{Field: name, Reason: fmt.Sprintf("%s is not a quoted text", text)}
	}
	if quoted {
		return collect.Value{Text: plain, IsText: true}, nil
	}
	n, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return collect.Value{}, &Error{Field: name, Reason: fmt.Sprintf("%q is not a number; a text needs double quotes, - removes a value", text)}
	}
	return collect.Value{Number: n}, nil
}

// parseKey reads "0" or "0/1".
func parseKey(word string) (key, bool) {
	device, instance, cut := strings.Cut(word, "/")
	gpu, err := strconv.ParseUint(device, 10, 8)
	if err != nil {
		return key{}, false
	}
	if !cut {
		return key{int(gpu), -1}, true
	}
	id, err := strconv.ParseUint(instance, 10, 8)
	return key{int(gpu), int(id)}, err == nil
}

func (p *parser) parseKnown(word string) (key, *Error) {
	k, ok := parseKey(word)
	if !ok {
		return key{}, &Error{Field: word, Reason: "want GPU, instance, at, gone, end, or an entity such as 0 or 0/1"}
	}
	if !p.known[k] {
		return key{}, &Error{Field: word, Reason: "there is no such GPU or instance at this point"}
	}
	return k, nil
}

func (p *parser) parseEntity(device bool, words []string) *Error {
	if len(words) == 0 {
		return &Error{Reason: "want an entity such as 0 or 0/1"}
	}
	k, ok := parseKey(words[0])
	if !ok || device != (k.instance < 0) {
		return &Error{Field: words[0], Reason: "want <n> for a GPU, <GPU>/<n> for an instance"}
	}
	e := &collect.Entity{Kind: collect.GPU, GPU: k.gpu, Minor: k.gpu}
	if !device {
		if !p.known[key{k.gpu, -1}] {
			return &Error{Field: words[0], Reason: "its GPU is not there at this point"}
		}
		e.Kind, e.InstanceID, e.Start, e.Minor = collect.Instance, k.instance, -1, 0
	}
	seen := map[string]bool{}
	for _, word := range words[1:] {
		name, text, ok := strings.Cut(word, "=")
		if !ok || seen[name] {
			return &Error{Field: name, Reason: "want key=value, each key once"}
		}
		seen[name] = true
		if err := setKey(e, name, text); err != nil {
			return err
		}
	}
	p.known[k], p.any = true, true
	p.add(change{key: k, entity: e})
	return nil
}

// setKey sets one key of a GPU or instance line.
func setKey(e *collect.Entity, name, text string) *Error {
	plain, _, err := unquote(text)
	if err != nil {
		return &Error{Field: name, Reason: fmt.Sprintf("%s is not a quoted text", text)}
	}
	device := e.Kind == collect.GPU
	switch {
	case name == "uuid" && device:
		e.UUID = plain
	case name == "uuid":
		e.InstanceUUID = plain
	case name == "model" && device:
		e.Model = plain
	case name == "bus" && device:
		e.PCIBusID = plain
	case name == "driver" && device:
		e.DriverVersion = plain
	case name == "profile" && !device:
		e.Profile = plain
	case name == "mig" && device:
		e.MIG, err = strconv.ParseBool(plain)
	case name == "minor" && device:
		e.Minor, err = small(plain)
	case name == "slices" && device:
		e.GPUMaxCompute, err = small(plain)
	case name == "start" && !device:
		e.Start, err = small(plain)
	case name == "size" && !device:
		e.Size, err = small(plain)
	case name == "compute" && !device:
		e.ComputeSlices, err = small(plain)
	default:
		return &Error{Field: name, Reason: "no such key on this line"}
	}
	if err != nil {
		return &Error{Field: name, Reason: fmt.Sprintf("%q is not a value for it", text)}
	}
	return nil
}

func small(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 8)
	return int(n), err
}
