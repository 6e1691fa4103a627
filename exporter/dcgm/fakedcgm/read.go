package fakedcgm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// header is the first line of a state file; the last one is "end". Between them
// stand, one a line:
//
//	driver version V
//	hang ms N
//	dead
//	card index N minor N memory MIB mig 0|1 lost 0|1 uuid U pci P product "NAME"
//	field ID NUMBER|unsupported          of the card or instance above it
//	xid code N at UNIX_MICROSECONDS      of the card above it
//	instance id N entity N slices N start N size N profile P uuid U
//
// Values with spaces stand in double quotes, which nothing escapes. Lines that
// begin with # and empty lines are skipped.
const header = "fakedcgm 1"

// Limits of the double; the C reader has the same ones.
const (
	maxCards     = 32
	maxInstances = 8
	maxFields    = 64
	maxXIDs      = 64
	maxText      = 96
)

// Read gives the state in the file at path. An error names the line.
func Read(path string) (State, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return State{}, fmt.Errorf("reading fake DCGM state: %w", err)
	}
	s, err := decode(string(data))
	if err != nil {
		return State{}, fmt.Errorf("reading fake DCGM state %s: %w", path, err)
	}
	return s, nil
}

func decode(text string) (State, error) {
	var s State
	lines := strings.Split(text, "\n")
	if lines[0] != header {
		return State{}, fmt.Errorf("line 1: want %q", header)
	}
	for n, line := range lines[1:] {
		if line == "end" {
			return s, nil
		}
		words, err := splitWords(line)
		if err == nil && len(words) > 0 {
			err = s.apply(words)
		}
		if err != nil {
			return State{}, fmt.Errorf("line %d: %w", n+2, err)
		}
	}
	return State{}, errors.New(`no "end" line: the file is cut off`)
}

// splitWords cuts a line at spaces; a word in double quotes may hold them.
func splitWords(line string) ([]string, error) {
	var words []string
	rest := strings.TrimLeft(line, " \t")
	if strings.HasPrefix(rest, "#") {
		return nil, nil
	}
	for rest != "" {
		var word string
		if rest[0] == '"' {
			end := strings.IndexByte(rest[1:], '"')
			if end < 0 {
				return nil, errors.New("a quote is not closed")
			}
			word, rest = rest[1:1+end], rest[end+2:]
			if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
				return nil, errors.New("text sticks to a closing quote")
			}
		} else {
			end := strings.IndexAny(rest, " \t")
			if end < 0 {
				end = len(rest)
			}
			word, rest = rest[:end], rest[end:]
			if strings.ContainsAny(word, `"`) {
				return nil, errors.New("a quote stands inside a word")
			}
		}
		if len(word) >= maxText {
			return nil, fmt.Errorf("a value is longer than %d bytes", maxText-1)
		}
		if strings.ContainsAny(word, "\r\x00") {
			return nil, errors.New("a control character stands in a value")
		}
		words = append(words, word)
		rest = strings.TrimLeft(rest, " \t")
	}
	return words, nil
}

// apply adds one line to the state.
func (s *State) apply(words []string) error {
	switch words[0] {
	case "dead":
		if len(words) != 1 {
			return errors.New(`"dead" stands alone`)
		}
		s.Dead = true
		return nil
	case "field":
		return s.applyField(words[1:])
	}
	p, err := newPairs(words)
	if err != nil {
		return err
	}
	switch words[0] {
	case "driver":
		s.DriverVersion = p.text("version")
	case "hang":
		s.HangFor = time.Duration(p.whole("ms", 64)) * time.Millisecond
	case "card":
		if len(s.Cards) == maxCards {
			return fmt.Errorf("more than %d cards", maxCards)
		}
		s.Cards = append(s.Cards, Card{
			Index: p.number("index"), Minor: p.number("minor"), MemoryMiB: p.number("memory"),
			MIG: p.number("mig") != 0, Lost: p.number("lost") != 0,
			UUID: p.text("uuid"), PCIBusID: p.text("pci"), Product: p.text("product"),
		})
	case "xid", "instance":
		if len(s.Cards) == 0 {
			return fmt.Errorf("%q before any card", words[0])
		}
		s.Cards[len(s.Cards)-1].apply(p)
		if c := s.Cards[len(s.Cards)-1]; len(c.Instances) > maxInstances || len(c.XIDs) > maxXIDs {
			return fmt.Errorf("more than %d instances or %d xids on a card", maxInstances, maxXIDs)
		}
	default:
		return fmt.Errorf("unknown word %q", words[0])
	}
	return p.done()
}

func (c *Card) apply(p *pairs) {
	if p.keyword == "xid" {
		c.XIDs = append(c.XIDs, XID{Code: p.number("code"), At: time.UnixMicro(p.whole("at", 64))})
		return
	}
	c.Instances = append(c.Instances, Instance{
		ID: p.number("id"), EntityID: p.number("entity"), ComputeSlices: p.number("slices"),
		Start: p.number("start"), Size: p.number("size"), Profile: p.text("profile"), UUID: p.text("uuid"),
	})
}

func (s *State) applyField(words []string) error {
	if len(s.Cards) == 0 {
		return errors.New(`"field" before any card`)
	}
	if len(words) != 2 {
		return errors.New(`"field" wants an id and a value`)
	}
	id, err := strconv.ParseUint(words[0], 10, 16)
	if err != nil {
		return fmt.Errorf("field id %q is not a number below 65536", words[0])
	}
	value := math.NaN()
	if words[1] != "unsupported" {
		value, err = strconv.ParseFloat(words[1], 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("field %d: %q is not a number", id, words[1])
		}
	}
	card := &s.Cards[len(s.Cards)-1]
	fields := &card.Fields
	if n := len(card.Instances); n > 0 {
		fields = &card.Instances[n-1].Fields
	}
	if *fields == nil {
		*fields = map[uint16]float64{}
	}
	(*fields)[uint16(id)] = value
	if len(*fields) > maxFields {
		return fmt.Errorf("more than %d fields on one entity", maxFields)
	}
	return nil
}
