package fakedcgm

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// header is the first line of a state file; the last one is "end". Between them
// stand, one a line:
//
//	driver version V
//	hang ms N
//	dead
//	nonvml
//	fail call NAME status N
//	card index N minor N memory MIB mig 0|1 lost 0|1 uuid U pci P product "NAME"
//	field ID NUMBER|WORD                 of the entity above it; WORD as Odd has them
//	frozen                               the card above it
//	profiling ID ID …                    of the card above it
//	xid code N at UNIX_MICROSECONDS      of the card above it
//	instance id N entity N slices N start N size N profile P uuid U
//	switch id N
//	link of 1|3 id N index N up 0|1
//	cpu id N first N last N
//	core id N                            of the CPU above it
//	health gpu N system N result N code N
//	p2p from N to N status N
//
// Values with spaces stand in double quotes, which nothing escapes. Lines that
// begin with # and empty lines are skipped.
const header = "fakedcgm 1"

// Limits of the double; the C reader has the same ones.
const (
	maxCards     = 32
	maxInstances = 8
	maxFields    = 192
	maxXIDs      = 64
	maxThings    = 256 // switches, links, CPUs and cores with values
	maxNotes     = 64  // of health, of peers, of failing calls
	maxProfiled  = 22
	maxCores     = 1024
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
	var d decoder
	lines := strings.Split(text, "\n")
	if lines[0] != header {
		return State{}, fmt.Errorf("line 1: want %q", header)
	}
	for n, line := range lines[1:] {
		if line == "end" {
			return d.state, nil
		}
		words, err := splitWords(line)
		if err == nil && len(words) > 0 {
			err = d.apply(words)
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
