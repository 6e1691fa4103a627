package fakedcgm

import (
	"bytes"
	"encoding/binary"
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
	content, err := s.encode()
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
	_, err = f.Write(content)
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

// The records of c/state.h, which the library reads as they are: a header, then the tables in
// the order of its counts. None has padding.
type (
	text [96]byte
	// span is a part of a table.
	span   struct{ First, Count int32 }
	header struct {
		HangMS, KernelShift                                                         int64
		Dead, NoNVML, Links36                                                       int32
		Values, XIDs, GPUs, Instances, Things, Incidents, Peers, Failing, TextCount int32
		Driver                                                                      text
	}
	valueRecord struct {
		ID, Answer uint16
		_          uint32
		Number     float64
	}
	xidRecord struct {
		At                     int64
		Code, Kind, ID, Kernel int32
	}
	gpuRecord struct {
		Index, Minor, Memory, MIG, Lost, Frozen int32
		Values, Instances                       span
		Profiled                                int32
		Profile                                 [22]uint16
		UUID, PCI, Product                      text
	}
	instanceRecord struct {
		ID, Entity, Slices, Start, Size, Computes int32
		Values                                    span
		Profile, UUID                             text
	}
	thingRecord struct {
		Kind, ID, ParentKind, Parent, Index, First, Last, Up int32
		Values                                               span
	}
	incidentRecord struct{ GPU, System, Result, Code int32 }
	peerRecord     struct{ From, To, Status int32 }
	failRecord     struct {
		Status int32
		Call   text
	}
)

// encoder collects the tables. It keeps the first error.
type encoder struct {
	values    []valueRecord
	xids      []xidRecord
	instances []instanceRecord
	things    []thingRecord
	texts     []text
	err       error
}

// Bounds of DCGM's structures that have a place for each GPU, and of the library's tables.
const (
	maxGPUs   = 32
	maxXIDs   = 1024
	maxThings = 1024
)

func (s State) encode() ([]byte, error) {
	e := &encoder{}
	h := header{
		HangMS: s.HangFor.Milliseconds(), KernelShift: s.KernelShift.Microseconds(),
		Dead: flag(s.Dead), NoNVML: flag(s.NoNVML), Links36: flag(s.Links36), Driver: e.text(s.DriverVersion),
	}
	var gpus []gpuRecord
	for _, c := range s.GPUs {
		gpus = append(gpus, e.gpu(c))
	}
	e.beside(s)
	var incidents []incidentRecord
	for _, i := range s.Incidents {
		incidents = append(incidents, incidentRecord{int32(i.GPU), int32(i.System), int32(i.Result), int32(i.Code)})
	}
	var peers []peerRecord
	for _, p := range s.Peers {
		peers = append(peers, peerRecord{int32(p.From), int32(p.To), int32(p.Status)})
	}
	var failing []failRecord
	for call, status := range s.Fail {
		failing = append(failing, failRecord{int32(status), e.text(call)})
	}
	if len(gpus) > maxGPUs || len(e.xids) > maxXIDs || len(e.things) > maxThings {
		e.fail("%d GPUs, %d XIDs and %d switches, links, CPUs and cores are too many", len(gpus), len(e.xids), len(e.things))
	}
	h.Values, h.XIDs, h.GPUs, h.Instances = int32(len(e.values)), int32(len(e.xids)), int32(len(gpus)), int32(len(e.instances))
	h.Things, h.Incidents, h.Peers = int32(len(e.things)), int32(len(incidents)), int32(len(peers))
	h.Failing, h.TextCount = int32(len(failing)), int32(len(e.texts))
	var b bytes.Buffer
	for _, table := range []any{h, e.values, e.xids, gpus, e.instances, e.things, incidents, peers, failing, e.texts} {
		if err := binary.Write(&b, binary.NativeEndian, table); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), e.err
}

func (e *encoder) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, args...)
	}
}

func (e *encoder) text(s string) (out text) {
	if copy(out[:len(out)-1], s) < len(s) {
		e.fail("%q is longer than %d bytes", s, len(out)-1)
	}
	return out
}

func flag(on bool) int32 {
	if on {
		return 1
	}
	return 0
}

func (e *encoder) gpu(c GPU) gpuRecord {
	out := gpuRecord{
		Index: int32(c.Index), Minor: int32(c.Minor), Memory: int32(c.MemoryMiB), MIG: flag(c.MIG), Lost: flag(c.Lost), Frozen: flag(c.Frozen),
		Values: e.fields(c.Fields, c.Odd), Instances: span{int32(len(e.instances)), int32(len(c.Instances))},
		UUID: e.text(c.UUID), PCI: e.text(c.PCIBusID), Product: e.text(c.Product), Profiled: int32(len(c.Profiling)),
	}
	if copy(out.Profile[:], c.Profiling) < len(c.Profiling) {
		e.fail("%d fields to profile are too many", len(c.Profiling))
	}
	e.events(c.XIDs, kindGPU, c.Index)
	for _, i := range c.Instances {
		e.instances = append(e.instances, instanceRecord{
			ID: int32(i.ID), Entity: int32(i.EntityID), Slices: int32(i.ComputeSlices), Start: int32(i.Start), Size: int32(i.Size),
			Computes: int32(1 + len(i.UUIDs)), Values: e.fields(i.Fields, i.Odd), Profile: e.text(i.Profile), UUID: e.text(i.UUID),
		})
		e.events(i.XIDs, kindInstance, i.EntityID)
	}
	return out
}

// Entity groups as DCGM numbers them.
const (
	kindGPU      = 1
	kindSwitch   = 3
	kindInstance = 4
	kindCompute  = 5
	kindLink     = 6
	kindCPU      = 7
	kindCore     = 8
)

// ComputeID is DCGM's entity id of the first compute instance in a GPU instance.
func ComputeID(instance int) int { return 8 * instance }

func (e *encoder) events(xids []XID, kind, id int) {
	for _, x := range xids {
		r := xidRecord{At: x.At.UnixMicro(), Code: int32(x.Code), Kind: int32(kind), ID: int32(id), Kernel: flag(x.Kernel)}
		if kind == kindInstance && x.Compute {
			r.Kind, r.ID = kindCompute, int32(ComputeID(id))
		}
		e.xids = append(e.xids, r)
	}
}

// beside collects what is beside the GPUs.
func (e *encoder) beside(s State) {
	add := func(r thingRecord, fields Fields, odd Odd) {
		r.Values = e.fields(fields, odd)
		e.things = append(e.things, r)
	}
	for _, w := range s.Switches {
		add(thingRecord{Kind: kindSwitch, ID: int32(w.ID)}, w.Fields, w.Odd)
	}
	for _, l := range s.Links {
		// dcgm_link_t: type, index and parent in 8, 16 and 8 bits.
		id := uint32(l.Of) | uint32(l.Index)<<8 | uint32(l.ID)<<24
		add(thingRecord{Kind: kindLink, ID: int32(id), ParentKind: int32(l.Of), Parent: int32(l.ID), Index: int32(l.Index), Up: flag(l.Up)}, l.Fields, l.Odd)
	}
	for _, c := range s.CPUs {
		add(thingRecord{Kind: kindCPU, ID: int32(c.ID), First: int32(c.First), Last: int32(c.Last)}, c.Fields, c.Odd)
		for _, core := range c.Cores {
			add(thingRecord{Kind: kindCore, ID: int32(core.ID)}, core.Fields, core.Odd)
		}
	}
}

// answers are the words of Odd in the order of c/state.h, after a number.
var answers = []string{"", "blank", "not_found", "unsupported", "not_permitted",
	"int32_blank", "int32_not_found", "int32_unsupported", "int32_not_permitted", "nan", "inf", "status", "text"}

func (e *encoder) fields(fields Fields, odd Odd) span {
	out := span{First: int32(len(e.values))}
	for _, id := range slices.Sorted(maps.Keys(fields)) {
		v := valueRecord{ID: id, Number: fields[id]}
		if math.IsNaN(v.Number) {
			v.Answer, v.Number = uint16(slices.Index(answers, "unsupported")), 0
		}
		e.values = append(e.values, v)
	}
	for id, answer := range odd {
		word, rest, _ := strings.Cut(answer, ":")
		v := valueRecord{ID: id, Answer: uint16(max(0, slices.Index(answers, word)))}
		_, twice := fields[id]
		status := 0
		switch word {
		case "text":
			v.Number = float64(len(e.texts))
			e.texts = append(e.texts, e.text(rest))
		case "status":
			if _, err := fmt.Sscan(rest, &status); err != nil || status >= 0 {
				e.fail("field %d: %q is no status", id, answer)
			}
			v.Number = float64(status)
		}
		if v.Answer == 0 || twice {
			e.fail("field %d: %q is unknown, or the field has a number too", id, answer)
		}
		e.values = append(e.values, v)
	}
	out.Count = int32(len(e.values)) - out.First
	return out
}
