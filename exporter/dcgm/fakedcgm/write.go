package fakedcgm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

// Write puts the state at path, and the NVML fake's beside it, by replacing the files.
func (s State) Write(path string) error {
	e := &encoder{ids: map[int][]string{}}
	e.state(s)
	m, err := s.nvml()
	if err = errors.Join(err, e.Err); err == nil {
		err = m.Write(path + ".nvml")
	}
	if err == nil {
		err = e.Replace(path)
	}
	if err != nil {
		return fmt.Errorf("writing the DCGM fake's state: %w", err)
	}
	return nil
}

// encoder writes the lines that c/state.c reads.
type encoder struct {
	fakenvml.Text
	ids  map[int][]string // of the entities there are, by kind
	xids int
}

// Bounds of DCGM's structures that have a place for each GPU, and of the library's tables.
const (
	maxGPUs     = 32
	maxXIDs     = 1024
	maxEntities = 1024 // of a kind
	maxProfiled = 22
	maxText     = 96
)

func (e *encoder) state(s State) {
	for name, on := range map[string]bool{"dead": s.Dead, "no_nvml": s.NoNVML, "links36": s.Links36} {
		e.Flag(name, on)
	}
	e.Line("hang_ms", s.HangFor.Milliseconds())
	for call, status := range s.Fail {
		e.Line("fail."+call, status)
	}
	for i, x := range s.Incidents {
		e.Line(fmt.Sprint("incident.", i), x.GPU, x.System, x.Result, x.Code)
	}
	for _, p := range s.Peers {
		e.Line(fmt.Sprintf("peer.%d.%d", p.From, p.To), p.Status)
	}
	for _, c := range s.GPUs {
		e.gpu(c, s.DriverVersion)
	}
	e.beside(s)
	for kind, ids := range e.ids {
		if len(ids) > maxEntities || kind == kindGPU && len(ids) > maxGPUs {
			e.Fail("%d entities of kind %d are too many", len(ids), kind)
		}
		e.Line(fmt.Sprint("list.", kind), strings.Join(ids, " "))
	}
	if e.xids > maxXIDs {
		e.Fail("%d XIDs are too many", e.xids)
	}
}

// entity adds one with its fields, and gives the path of what else is known of it. of are
// answers where neither fields nor odd has one.
func (e *encoder) entity(kind int, id uint32, fields Fields, odd Odd, of map[uint16]string) string {
	at := fmt.Sprintf("%d.%d", kind, id)
	e.Line(at)
	e.ids[kind] = append(e.ids[kind], fmt.Sprint(id))
	answers := maps.Clone(of)
	if answers == nil {
		answers = map[uint16]string{}
	}
	for field, n := range fields {
		answers[field] = strconv.FormatFloat(n, 'g', -1, 64)
		if math.IsNaN(n) {
			answers[field] = "!unsupported"
		}
	}
	for field, answer := range odd {
		if _, twice := fields[field]; twice {
			e.Fail("field %d has a number and %q", field, answer)
		}
		e.checkOdd(field, answer)
		answers[field] = "!" + answer
	}
	for field, answer := range answers {
		if len(answer) >= maxText {
			e.Fail("%q is longer than %d bytes", answer, maxText-1)
		}
		if answer != "!text:" {
			e.Line(fmt.Sprintf("%s.f.%d", at, field), answer)
		}
	}
	return at + "."
}

func (e *encoder) checkOdd(field uint16, answer string) {
	word, rest, _ := strings.Cut(answer, ":")
	status, err := strconv.Atoi(rest)
	switch {
	case word == "status" && (err != nil || status >= 0):
		e.Fail("field %d: %q is no status", field, answer)
	case !slices.Contains([]string{"blank", "not_found", "unsupported", "not_permitted", "nan", "inf", "status", "text"}, strings.TrimPrefix(word, "int32_")):
		e.Fail("field %d: %q is unknown", field, answer)
	}
}

func (e *encoder) gpu(c GPU, driver string) {
	slices := 7
	if strings.Contains(c.Product, "A30") && !strings.Contains(c.Product, "A300") {
		slices = 4
	}
	mig := 0
	if c.MIG {
		mig = 1
	}
	at := e.entity(kindGPU, uint32(c.Index), c.Fields, c.Odd, map[uint16]string{
		1: "!text:" + driver, 50: "!text:" + c.Product, 54: "!text:" + c.UUID, 57: "!text:" + c.PCIBusID,
		52: strconv.Itoa(c.Index), 55: strconv.Itoa(c.Minor), 67: strconv.Itoa(mig), 69: strconv.Itoa(slices), 250: strconv.Itoa(c.MemoryMiB),
	})
	e.Line(at+"uuid", c.UUID)
	e.Flag(at+"lost", c.Lost || c.Detached)
	e.Flag(at+"detached", c.Detached)
	e.Flag(at+"frozen", c.Frozen)
	profiled := c.Profiling
	if len(profiled) == 0 {
		profiled = []uint16{1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012}
	}
	if len(profiled) > maxProfiled {
		e.Fail("%d fields to profile are too many", len(profiled))
	}
	e.Line(at+"profiled", strings.Trim(fmt.Sprint(profiled), "[]"))
	e.events(c.XIDs, kindGPU, c.Index)
	for _, i := range c.Instances {
		at := e.entity(kindInstance, uint32(i.EntityID), i.Fields, i.Odd, map[uint16]string{50: "!text:" + i.Profile, 54: "!text:" + i.UUID})
		e.Line(at+"gpu", c.Index)
		e.Line(at+"gi", i.ID)
		e.Line(at+"slices", i.ComputeSlices)
		e.Line(at+"computes", 1+len(i.UUIDs))
		for k := range 1 + len(i.UUIDs) {
			e.Line(e.entity(kindCompute, uint32(ComputeID(i.EntityID)+k), nil, nil, nil)+"gpu", c.Index)
		}
		e.events(i.XIDs, kindInstance, i.EntityID)
	}
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
		kind, id, kernel := kind, id, 0
		if kind == kindInstance && x.Compute {
			kind, id = kindCompute, ComputeID(id)
		}
		if x.Kernel {
			kernel = 1
		}
		e.Line(fmt.Sprint("xid.", e.xids), x.At.UnixMicro(), x.Code, kind, id, kernel)
		e.xids++
	}
}

// beside adds what is beside the GPUs.
func (e *encoder) beside(s State) {
	for _, w := range s.Switches {
		e.entity(kindSwitch, uint32(w.ID), w.Fields, w.Odd, nil)
	}
	for _, l := range s.Links {
		// dcgm_link_t: type, index and parent in 8, 16 and 8 bits.
		id, up := uint32(l.Of)|uint32(l.Index)<<8|uint32(l.ID)<<24, 0
		if l.Up {
			up = 1
		}
		e.Line(e.entity(kindLink, id, l.Fields, l.Odd, nil)+"link", l.Of, l.ID, l.Index, up)
	}
	for _, c := range s.CPUs {
		e.Line(e.entity(kindCPU, uint32(c.ID), c.Fields, c.Odd, nil)+"cores", c.First, c.Last)
		cores := map[int]Core{}
		for _, core := range c.Cores {
			cores[core.ID] = core
		}
		for id := c.First; id <= c.Last; id++ {
			e.entity(kindCore, uint32(id), cores[id].Fields, cores[id].Odd, nil)
		}
	}
}
