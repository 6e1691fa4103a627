package fakedcgm

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Write puts the state at path by writing a neighbour and renaming it, so that
// a reader never sees half of it.
func (s State) Write(path string) error {
	text, err := s.encode()
	if err != nil {
		return fmt.Errorf("encoding fake DCGM state: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".fakedcgm-*")
	if err != nil {
		return fmt.Errorf("writing fake DCGM state: %w", err)
	}
	_, err = f.WriteString(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("writing fake DCGM state: %w", err)
	}
	return nil
}

// encode gives the text that decode and the C reader understand.
func (s State) encode() (string, error) {
	e := &encoder{}
	e.b.WriteString(header + "\n")
	if s.DriverVersion != "" {
		e.line("driver", "version", s.DriverVersion)
	}
	if s.HangFor > 0 {
		e.line("hang", "ms", strconv.FormatInt(s.HangFor.Milliseconds(), 10))
	}
	if s.Dead {
		e.line("dead")
	}
	if s.NoNVML {
		e.line("nonvml")
	}
	for _, call := range slices.Sorted(maps.Keys(s.Fail)) {
		e.line("fail", "call", call, "status", strconv.Itoa(s.Fail[call]))
	}
	for _, c := range s.Cards {
		e.card(c)
	}
	e.others(s)
	e.line("end")
	if e.err != nil {
		return "", e.err
	}
	text := e.b.String()
	if _, err := decode(text); err != nil {
		return "", err // a state that cannot be read back must not be written
	}
	return text, nil
}

// encoder keeps the first error, so that lines can be written in a row.
type encoder struct {
	b   strings.Builder
	err error
}

func (e *encoder) card(c Card) {
	e.line("card", "index", strconv.Itoa(c.Index), "minor", strconv.Itoa(c.Minor),
		"memory", strconv.Itoa(c.MemoryMiB), "mig", flag(c.MIG), "lost", flag(c.Lost),
		"uuid", c.UUID, "pci", c.PCIBusID, "product", c.Product)
	e.fields(c.Fields, c.Odd)
	if c.Frozen {
		e.line("frozen")
	}
	if len(c.Profiling) > 0 {
		words := []string{"profiling"}
		for _, f := range c.Profiling {
			words = append(words, strconv.Itoa(int(f)))
		}
		e.line(words...)
	}
	for _, x := range c.XIDs {
		e.line("xid", "code", strconv.Itoa(x.Code), "at", strconv.FormatInt(x.At.UnixMicro(), 10))
	}
	for _, i := range c.Instances {
		e.line("instance", "id", strconv.Itoa(i.ID), "entity", strconv.Itoa(i.EntityID),
			"slices", strconv.Itoa(i.ComputeSlices), "start", strconv.Itoa(i.Start), "size", strconv.Itoa(i.Size),
			"profile", i.Profile, "uuid", i.UUID)
		e.fields(i.Fields, i.Odd)
	}
}

// others writes what is beside the cards.
func (e *encoder) others(s State) {
	for _, w := range s.Switches {
		e.line("switch", "id", strconv.Itoa(w.ID))
		e.fields(w.Fields, w.Odd)
	}
	for _, l := range s.Links {
		e.line("link", "of", strconv.Itoa(l.Of), "id", strconv.Itoa(l.ID), "index", strconv.Itoa(l.Index), "up", flag(l.Up))
		e.fields(l.Fields, l.Odd)
	}
	for _, c := range s.CPUs {
		e.line("cpu", "id", strconv.Itoa(c.ID), "first", strconv.Itoa(c.First), "last", strconv.Itoa(c.Last))
		e.fields(c.Fields, c.Odd)
		for _, core := range c.Cores {
			e.line("core", "id", strconv.Itoa(core.ID))
			e.fields(core.Fields, core.Odd)
		}
	}
	for _, i := range s.Incidents {
		e.line("health", "gpu", strconv.Itoa(i.GPU), "system", strconv.Itoa(i.System),
			"result", strconv.Itoa(i.Result), "code", strconv.Itoa(i.Code))
	}
	for _, p := range s.Peers {
		e.line("p2p", "from", strconv.Itoa(p.From), "to", strconv.Itoa(p.To), "status", strconv.Itoa(p.Status))
	}
}

func (e *encoder) fields(fields Fields, odd Odd) {
	for _, id := range slices.Sorted(maps.Keys(fields)) {
		value := "unsupported"
		if v := fields[id]; !math.IsNaN(v) {
			value = strconv.FormatFloat(v, 'g', -1, 64)
		}
		e.line("field", strconv.Itoa(int(id)), value)
	}
	for _, id := range slices.Sorted(maps.Keys(odd)) {
		if _, twice := fields[id]; twice && e.err == nil {
			e.err = fmt.Errorf("field %d has a number and an odd answer", id)
		}
		e.line("field", strconv.Itoa(int(id)), odd[id])
	}
}

func (e *encoder) line(words ...string) {
	for i, w := range words {
		if strings.ContainsAny(w, "\"\n\r\x00") && e.err == nil {
			e.err = fmt.Errorf("%q cannot be written: it holds a quote or a control character", w)
		}
		if i > 0 {
			e.b.WriteByte(' ')
		}
		// Keys and keywords never need quotes; values get them when they hold a
		// space or are empty.
		if w == "" || strings.ContainsAny(w, " \t") {
			w = `"` + w + `"`
		}
		e.b.WriteString(w)
	}
	e.b.WriteByte('\n')
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
