package fakedcgm

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Write puts the state at path, and the NVML fake's beside it, by writing a
// neighbour and renaming it, so that a reader never sees half of it.
func (s State) Write(path string) error {
	text, err := s.encode()
	if err != nil {
		return fmt.Errorf("encoding fake DCGM state: %w", err)
	}
	if err := s.writeNVML(path); err != nil {
		return fmt.Errorf("writing fake DCGM state: %w", err)
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

// encode gives the text that the C reader and Read understand.
func (s State) encode() (string, error) {
	var whole bytes.Buffer
	if err := gob.NewEncoder(&whole).Encode(s); err != nil {
		return "", err
	}
	e := &encoder{}
	e.b.WriteString(header + "\n# " + base64.StdEncoding.EncodeToString(whole.Bytes()) + "\n")
	if s.DriverVersion != "" {
		e.line("driver", "version", s.DriverVersion)
	}
	if s.HangFor > 0 {
		e.line("hang", "ms", s.HangFor.Milliseconds())
	}
	if s.Dead {
		e.line("dead")
	}
	if s.NoNVML {
		e.line("nonvml")
	}
	for _, call := range slices.Sorted(maps.Keys(s.Fail)) {
		e.line("fail", "call", call, "status", s.Fail[call])
	}
	e.most(len(s.Fail), maxNotes, "failing calls")
	e.most(len(s.GPUs), maxGPUs, "gpus")
	for _, c := range s.GPUs {
		e.dev(c)
	}
	e.others(s)
	e.line("end")
	return e.b.String(), e.err
}

// Limits of the C reader.
const (
	maxGPUs      = 32
	maxInstances = 8
	maxFields    = 192
	maxXIDs      = 64
	maxThings    = 256 // switches, links, CPUs and cores with values
	maxNotes     = 64  // of health, of peers, of failing calls
	maxText      = 96
)

// encoder keeps the first error, so that lines can be written in a row.
type encoder struct {
	b   strings.Builder
	err error
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

func (e *encoder) most(n, limit int, of string) {
	if n > limit {
		e.fail("more than %d %s", limit, of)
	}
}

func (e *encoder) dev(c GPU) {
	e.line("gpu", "index", c.Index, "minor", c.Minor,
		"memory", c.MemoryMiB, "mig", flag(c.MIG), "lost", flag(c.Lost),
		"uuid", c.UUID, "pci", c.PCIBusID, "product", c.Product)
	e.fields(c.Fields, c.Odd)
	if c.Frozen {
		e.line("frozen")
	}
	if len(c.Profiling) > 0 {
		words := []any{"profiling"}
		for _, f := range c.Profiling {
			words = append(words, f)
		}
		e.line(words...)
	}
	e.most(len(c.XIDs), maxXIDs, "xids on a GPU")
	e.most(len(c.Instances), maxInstances, "instances on a GPU")
	for _, x := range c.XIDs {
		e.line("xid", "code", x.Code, "at", x.At.UnixMicro())
	}
	for _, i := range c.Instances {
		e.line("instance", "id", i.ID, "entity", i.EntityID,
			"slices", i.ComputeSlices, "start", i.Start, "size", i.Size,
			"profile", i.Profile, "uuid", i.UUID)
		e.fields(i.Fields, i.Odd)
	}
}

// others writes what is beside the GPUs.
func (e *encoder) others(s State) {
	things := len(s.Switches) + len(s.Links) + len(s.CPUs)
	for _, w := range s.Switches {
		e.line("switch", "id", w.ID)
		e.fields(w.Fields, w.Odd)
	}
	for _, l := range s.Links {
		e.line("link", "of", l.Of, "id", l.ID, "index", l.Index, "up", flag(l.Up))
		e.fields(l.Fields, l.Odd)
	}
	for _, c := range s.CPUs {
		e.line("cpu", "id", c.ID, "first", c.First, "last", c.Last)
		e.fields(c.Fields, c.Odd)
		things += len(c.Cores)
		for _, core := range c.Cores {
			e.line("core", "id", core.ID)
			e.fields(core.Fields, core.Odd)
		}
	}
	e.most(things, maxThings, "switches, links, CPUs and cores")
	e.most(len(s.Incidents), maxNotes, "incidents")
	e.most(len(s.Peers), maxNotes, "peers")
	for _, i := range s.Incidents {
		e.line("health", "gpu", i.GPU, "system", i.System,
			"result", i.Result, "code", i.Code)
	}
	for _, p := range s.Peers {
		e.line("p2p", "from", p.From, "to", p.To, "status", p.Status)
	}
}

func (e *encoder) fields(fields Fields, odd Odd) {
	e.most(len(fields)+len(odd), maxFields, "fields on one entity")
	for _, id := range slices.Sorted(maps.Keys(fields)) {
		var value any = fields[id]
		if v := fields[id]; math.IsNaN(v) {
			value = "unsupported"
		} else if math.IsInf(v, 0) {
			e.fail("field %d is infinite", id)
		}
		e.line("field", id, value)
	}
	for _, id := range slices.Sorted(maps.Keys(odd)) {
		if _, twice := fields[id]; twice {
			e.fail("field %d has a number and an odd answer", id)
		}
		e.line("field", id, odd[id])
	}
}

func (e *encoder) line(words ...any) {
	for i, word := range words {
		w := fmt.Sprint(word)
		if len(w) >= maxText || strings.ContainsAny(w, "\"\n\r\x00") {
			e.fail("%q cannot be written: it is too long, or holds a quote or a control character", w)
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
