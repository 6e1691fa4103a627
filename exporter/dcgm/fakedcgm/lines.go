package fakedcgm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decoder builds a state line by line.
type decoder struct {
	state  State
	fields *Fields // of the newest entity
	odd    *Odd
	things int
}

// apply adds one line to the state.
func (d *decoder) apply(words []string) error {
	switch words[0] {
	case "dead", "nonvml", "frozen":
		return d.applyWord(words)
	case "field":
		return d.applyField(words[1:])
	case "profiling":
		return d.applyProfiling(words[1:])
	}
	p, err := newPairs(words)
	if err != nil {
		return err
	}
	if err := d.applyPairs(p); err != nil {
		return err
	}
	return p.done()
}

func (d *decoder) card() *Card {
	if len(d.state.Cards) == 0 {
		return nil
	}
	return &d.state.Cards[len(d.state.Cards)-1]
}

func (d *decoder) applyWord(words []string) error {
	switch {
	case len(words) != 1:
		return fmt.Errorf("%q stands alone", words[0])
	case words[0] == "dead":
		d.state.Dead = true
	case words[0] == "nonvml":
		d.state.NoNVML = true
	case d.card() == nil:
		return errors.New(`"frozen" before any card`)
	default:
		d.card().Frozen = true
	}
	return nil
}

func (d *decoder) applyPairs(p *pairs) error {
	s := &d.state
	switch p.keyword {
	case "driver":
		s.DriverVersion = p.text("version")
	case "hang":
		s.HangFor = time.Duration(p.whole("ms", 64)) * time.Millisecond
	case "fail":
		if s.Fail == nil {
			s.Fail = map[string]int{}
		}
		s.Fail[p.text("call")] = p.number("status")
		return most(len(s.Fail), maxNotes, "failing calls")
	case "card":
		s.Cards = append(s.Cards, Card{
			Index: p.number("index"), Minor: p.number("minor"), MemoryMiB: p.number("memory"),
			MIG: p.number("mig") != 0, Lost: p.number("lost") != 0,
			UUID: p.text("uuid"), PCIBusID: p.text("pci"), Product: p.text("product"),
		})
		d.fields, d.odd = &d.card().Fields, &d.card().Odd
		return most(len(s.Cards), maxCards, "cards")
	case "xid", "instance":
		return d.applyToCard(p)
	case "health":
		s.Incidents = append(s.Incidents, Incident{
			GPU: p.number("gpu"), System: p.number("system"), Result: p.number("result"), Code: p.number("code"),
		})
		return most(len(s.Incidents), maxNotes, "incidents")
	case "p2p":
		s.Peers = append(s.Peers, Peer{From: p.number("from"), To: p.number("to"), Status: p.number("status")})
		return most(len(s.Peers), maxNotes, "peers")
	case "switch", "link", "cpu", "core":
		d.things++
		if err := d.applyThing(p); err != nil {
			return err
		}
		return most(d.things, maxThings, "switches, links, CPUs and cores")
	default:
		return fmt.Errorf("unknown word %q", p.keyword)
	}
	return nil
}

func (d *decoder) applyToCard(p *pairs) error {
	c := d.card()
	if c == nil {
		return fmt.Errorf("%q before any card", p.keyword)
	}
	if p.keyword == "xid" {
		c.XIDs = append(c.XIDs, XID{Code: p.number("code"), At: time.UnixMicro(p.whole("at", 64))})
		return most(len(c.XIDs), maxXIDs, "xids on a card")
	}
	c.Instances = append(c.Instances, Instance{
		ID: p.number("id"), EntityID: p.number("entity"), ComputeSlices: p.number("slices"),
		Start: p.number("start"), Size: p.number("size"), Profile: p.text("profile"), UUID: p.text("uuid"),
	})
	i := &c.Instances[len(c.Instances)-1]
	d.fields, d.odd = &i.Fields, &i.Odd
	return most(len(c.Instances), maxInstances, "instances on a card")
}

func (d *decoder) applyThing(p *pairs) error {
	s := &d.state
	id := p.number("id")
	if id < 0 {
		return fmt.Errorf("%q: id %d is negative", p.keyword, id)
	}
	switch p.keyword {
	case "switch":
		s.Switches = append(s.Switches, Switch{ID: id})
		w := &s.Switches[len(s.Switches)-1]
		d.fields, d.odd = &w.Fields, &w.Odd
	case "link":
		l := Link{Of: p.number("of"), ID: id, Index: p.number("index"), Up: p.number("up") != 0}
		highest := map[int]int{OfGPU: 17, OfSwitch: 255}
		if last, ok := highest[l.Of]; !ok || l.ID > 255 || l.Index < 0 || l.Index > last {
			return fmt.Errorf("no link %d of %d, which is of kind %d", l.Index, l.ID, l.Of)
		}
		s.Links = append(s.Links, l)
		d.fields, d.odd = &s.Links[len(s.Links)-1].Fields, &s.Links[len(s.Links)-1].Odd
	case "cpu":
		c := CPU{ID: id, First: p.number("first"), Last: p.number("last")}
		if c.First < 0 || c.First > c.Last || c.Last >= maxCores {
			return fmt.Errorf("cores %d to %d: want at most %d, in order", c.First, c.Last, maxCores)
		}
		s.CPUs = append(s.CPUs, c)
		d.fields, d.odd = &s.CPUs[len(s.CPUs)-1].Fields, &s.CPUs[len(s.CPUs)-1].Odd
	case "core":
		if len(s.CPUs) == 0 {
			return errors.New(`"core" before any cpu`)
		}
		c := &s.CPUs[len(s.CPUs)-1]
		c.Cores = append(c.Cores, Core{ID: id})
		d.fields, d.odd = &c.Cores[len(c.Cores)-1].Fields, &c.Cores[len(c.Cores)-1].Odd
	}
	return nil
}

func most(n, limit int, of string) error {
	if n > limit {
		return fmt.Errorf("more than %d %s", limit, of)
	}
	return nil
}

func fieldID(word string) (uint16, error) {
	id, err := strconv.ParseUint(word, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("field id %q is not a number below 65536", word)
	}
	return uint16(id), nil
}

func (d *decoder) applyProfiling(words []string) error {
	if d.card() == nil {
		return errors.New(`"profiling" before any card`)
	}
	if len(words) == 0 || len(words) > maxProfiled {
		return fmt.Errorf(`"profiling" wants 1 to %d field ids`, maxProfiled)
	}
	d.card().Profiling = nil
	for _, w := range words {
		id, err := fieldID(w)
		if err != nil {
			return err
		}
		d.card().Profiling = append(d.card().Profiling, id)
	}
	return nil
}

func (d *decoder) applyField(words []string) error {
	if d.fields == nil {
		return errors.New(`"field" before any entity`)
	}
	if len(words) != 2 {
		return errors.New(`"field" wants an id and a value`)
	}
	id, err := fieldID(words[0])
	if err != nil {
		return err
	}
	delete(*d.fields, id)
	delete(*d.odd, id)
	switch word := words[1]; {
	case word == "unsupported":
		set(d.fields, id, math.NaN())
	case isOdd(word):
		if *d.odd == nil {
			*d.odd = Odd{}
		}
		(*d.odd)[id] = word
	default:
		value, err := strconv.ParseFloat(word, 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("field %d: %q is neither a number nor an odd answer", id, word)
		}
		set(d.fields, id, value)
	}
	return most(len(*d.fields)+len(*d.odd), maxFields, "fields on one entity")
}

func set(fields *Fields, id uint16, value float64) {
	if *fields == nil {
		*fields = Fields{}
	}
	(*fields)[id] = value
}

// oddWords are the odd answers without an argument.
var oddWords = []string{
	"blank", "not_found", "unsupported", "not_permitted",
	"int32_blank", "int32_not_found", "int32_unsupported", "int32_not_permitted", "nan", "inf",
}

func isOdd(word string) bool {
	if code, ok := strings.CutPrefix(word, "status:"); ok {
		n, err := strconv.ParseInt(code, 10, 32)
		return err == nil && n < 0 && n > -1000
	}
	return strings.HasPrefix(word, "text:") || slices.Contains(oddWords, word)
}
