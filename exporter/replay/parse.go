package replay

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

// maxLine bounds a line; a GPU has some dozens of values.
const maxLine = 1 << 20

// Error is a mistake in a recording.
type Error struct {
	File   string
	Line   int    // from 1
	Field  string // the word at fault; "" where the whole line is
	Reason string
}

// Error reads "fleet.txt:7: minor: …".
func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Field, e.Reason)
}

// Parse reads a recording. The format is lines of words, '#' begins a comment:
//
//	GPU 0 uuid=GPU-5a1… model="NVIDIA H100 80GB HBM3" mig=true slices=7
//	instance 0/1 profile=3g.40gb start=0 size=4 compute=3 uuid=MIG-77c…
//	0 DCGM_FI_DEV_POWER_USAGE=310.5 DCGM_FI_DEV_SERIAL="1650"
//	0/1 DCGM_FI_PROF_GR_ENGINE_ACTIVE=0.42 252=20000
//	at 10s
//	0/1 DCGM_FI_PROF_GR_ENGINE_ACTIVE=0.9 252=-
//	gone 0/1
//	end 20s
//
// GPU makes a GPU, with the keys uuid, model, bus, minor (the index unless
// given), mig, driver and slices (compute slices of the whole GPU). instance
// makes a MIG instance <GPU>/<GPU instance id>, with uuid, profile, start, size
// and compute. A line that begins with an entity gives values by DCGM field
// name or number; they stay until changed, and "-" removes one. gone removes a
// GPU with its instances, or an instance. "at" moves on to an offset from the
// start; lines before the first are at 0s. "end" is the length of one pass;
// without it a pass ends one frame's time after the last frame.
//
// name is used in errors, each an *Error. The first mistake ends the parsing.
func Parse(name string, r io.Reader) (*Recording, error) {
	p := &parser{recording: &Recording{frames: []frame{{}}}, known: map[key]bool{}}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		p.line++
		if err := p.parseLine(scanner.Text()); err != nil {
			err.File, err.Line = name, p.line
			return nil, err
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading %s after line %d: %w", name, p.line, err)
	}
	if !p.any {
		return nil, &Error{File: name, Line: max(p.line, 1), Reason: "the recording has no GPU"}
	}
	p.finish()
	return p.recording, nil
}

type parser struct {
	recording *Recording
	line      int
	known     map[key]bool // entities there at this point
	ended     bool
	any       bool
}

func (p *parser) parseLine(line string) *Error {
	words, err := split(line)
	if err != nil || len(words) == 0 {
		return err
	}
	if p.ended {
		return &Error{Reason: "there is nothing after end"}
	}
	switch words[0] {
	case "at":
		return p.parseAt(words[1:])
	case "end":
		return p.parseEnd(words[1:])
	case "GPU", "instance":
		return p.parseEntity(words[0] == "GPU", words[1:])
	case "gone":
		return p.parseGone(words[1:])
	}
	return p.parseValues(words)
}

func (p *parser) frame() *frame { return &p.recording.frames[len(p.recording.frames)-1] }

func (p *parser) add(c change) { p.frame().changes = append(p.frame().changes, c) }

func offset(words []string) (time.Duration, *Error) {
	if len(words) != 1 {
		return 0, &Error{Reason: fmt.Sprintf("want one duration such as 10s, got %d words", len(words))}
	}
	d, err := time.ParseDuration(words[0])
	if err != nil || d <= 0 {
		return 0, &Error{Field: words[0], Reason: "want a duration above zero, such as 10s"}
	}
	return d, nil
}

func (p *parser) parseAt(words []string) *Error {
	at, err := offset(words)
	if err != nil {
		return err
	}
	if at <= p.frame().at {
		return &Error{Field: words[0], Reason: fmt.Sprintf("want an offset after %s", p.frame().at)}
	}
	p.recording.frames = append(p.recording.frames, frame{at: at})
	return nil
}

func (p *parser) parseEnd(words []string) *Error {
	at, err := offset(words)
	if err != nil {
		return err
	}
	if at <= p.frame().at {
		return &Error{Field: words[0], Reason: fmt.Sprintf("want an end after the last frame's %s", p.frame().at)}
	}
	p.recording.length, p.ended = at, true
	return nil
}

func (p *parser) parseGone(words []string) *Error {
	if len(words) != 1 {
		return &Error{Reason: "want: gone <GPU> or gone <GPU>/<instance>"}
	}
	k, err := p.parseKnown(words[0])
	if err != nil {
		return err
	}
	for other := range p.known {
		if other == k || k.instance < 0 && other.gpu == k.gpu {
			delete(p.known, other)
		}
	}
	p.add(change{key: k, gone: true})
	return nil
}

func (p *parser) parseValues(words []string) *Error {
	k, err := p.parseKnown(words[0])
	if err != nil {
		return err
	}
	c := change{key: k}
	seen := map[uint16]bool{}
	for _, word := range words[1:] {
		name, text, ok := strings.Cut(word, "=")
		if !ok {
			return &Error{Field: word, Reason: "want FIELD=value"}
		}
		id, ok := counters.FieldID(name)
		if !ok {
			return &Error{Field: name, Reason: "no DCGM field has this name or number"}
		}
		if seen[id] {
			return &Error{Field: name, Reason: "given twice on this line"}
		}
		seen[id] = true
		if text == "-" {
			c.blank = append(c.blank, id)
			continue
		}
		v, err := parseValue(name, text)
		if err != nil {
			return err
		}
		v.Field = id
		c.values = append(c.values, v)
	}
	if len(seen) == 0 {
		return &Error{Field: words[0], Reason: "no values given"}
	}
	p.add(c)
	return nil
}

// finish sets the length of a pass where no end line did.
func (p *parser) finish() {
	r := p.recording
	if r.length > 0 || len(r.frames) < 2 {
		return
	}
	last := len(r.frames) - 1
	r.length = 2*r.frames[last].at - r.frames[last-1].at
}

var _ collect.Source = (*Source)(nil)
