package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

func readPod(r *reader, p *plan.Pod) {
	p.Unschedulable = p.Node == ""
	if r.string("node", &p.Node) {
		p.Unschedulable = p.Node == ""
	}
	unmarked := false
	r.flag("unschedulable", &p.Unschedulable)
	if r.flag("unmarked", &unmarked); unmarked {
		p.Unschedulable = false
	}
	r.string("owner", &p.Owner)
	if r.ago("pending", &p.PendingSince) {
		p.Created = p.PendingSince
	}
	r.ago("age", &p.Created)
	r.text("priority", func(s string) error {
		n, err := strconv.ParseInt(s, 10, 32)
		p.Priority = int32(n)
		return err
	})
	var d demand.Demand
	if r.items("wants", func(it item) error { return readWant(it, &d) }) {
		p.Demand = d
	}
	r.string("unreadable", &p.Unreadable)
	r.quantity("cpu", &p.CPUMilli, cpuUnits)
	r.quantity("memory", &p.MemoryMi, memoryUnits)
	readLabels(r, "selector", &p.NodeSelector)
	readAffinity(r, &p.Affinity)
	readTolerations(r, &p.Tolerations)
	r.flag("evictable", &p.Evictable)
	r.flag("daemonset", &p.DaemonSet)
}

// readWant reads one part of a demand: "gpu", "amd.gpu*2", "3g.40gb*2",
// "part:core=500:memory-mib=8192", "any.gpu".
func readWant(it item, d *demand.Demand) error {
	name, count, many := strings.Cut(it[0].name, "*")
	n := 1
	if many {
		var err error
		if n, err = strconv.Atoi(count); err != nil {
			return fmt.Errorf("%q: want a number after *", it[0].name)
		}
	}
	if name == "part" {
		return readPart(it, d)
	}
	if vendor, ok := cutVendor(name); ok {
		d.Cards, d.Vendor = n, vendor
		return nil
	}
	parsed, err := mig.ParseName(name)
	if err != nil {
		return err
	}
	d.MIG = append(d.MIG, demand.Instances{Name: name, Count: n, MemoryGB: parsed.GB,
		Profile: mig.Profile{Compute: parsed.Compute, Attrs: parsed.Attrs}})
	return nil
}

// cutVendor reads "gpu" (nvidia), "amd.gpu", "any.gpu" (no vendor).
func cutVendor(name string) (string, bool) {
	vendor, ok := strings.CutSuffix(name, ".gpu")
	switch {
	case name == "gpu":
		return "nvidia", true
	case vendor == "any":
		return "", ok
	}
	return vendor, ok
}

func readPart(it item, d *demand.Demand) error {
	f := demand.Fraction{}
	for _, s := range it[1:] {
		n, err := strconv.Atoi(s.value)
		if err != nil {
			return fmt.Errorf("%s: want a number: %q", s.name, s.value)
		}
		switch s.name {
		case "core":
			f.CoreMilli = n
		case "memory-mib":
			f.MemoryMiB = n
		case "memory":
			f.MemoryMilli = n
		case "cards":
			f.Cards = n
		default:
			return fmt.Errorf("%q: a part has core, memory-mib, memory and cards", s.name)
		}
	}
	d.Fraction = &f
	return nil
}

func demandText(key string, d demand.Demand) string {
	var words []string
	if d.Cards != 0 || d.Vendor != "" {
		vendor := d.Vendor + "."
		switch d.Vendor {
		case "nvidia":
			vendor = ""
		case "":
			vendor = "any."
		}
		words = append(words, quote(vendor+"gpu"+times(d.Cards)))
	}
	for _, i := range d.MIG {
		words = append(words, quote(i.Name+times(i.Count)))
	}
	if f := d.Fraction; f != nil {
		word := fmt.Sprintf("part:core=%d:memory-mib=%d", f.CoreMilli, f.MemoryMiB)
		if f.MemoryMilli != 0 {
			word += fmt.Sprintf(":memory=%d", f.MemoryMilli)
		}
		if f.Cards != 0 {
			word += fmt.Sprintf(":cards=%d", f.Cards)
		}
		words = append(words, word)
	}
	if len(words) == 0 {
		return ""
	}
	return " " + key + "=(" + strings.Join(words, " ") + ")"
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return "*" + strconv.Itoa(n)
}

func podText(p plan.Pod, now time.Time) string {
	var b strings.Builder
	b.WriteString("pod " + quote(p.Key()))
	b.WriteString(demandText("wants", p.Demand))
	if p.Unreadable != "" {
		b.WriteString(" unreadable=" + quote(p.Unreadable))
	}
	if p.Node != "" {
		b.WriteString(" node=" + quote(p.Node))
	}
	flagText(&b, "unschedulable", p.Unschedulable && p.Node != "")
	flagText(&b, "unmarked", !p.Unschedulable && p.Node == "")
	b.WriteString(" pending=" + quote(timeText(p.PendingSince, now, -1)))
	if !p.Created.Equal(p.PendingSince) {
		b.WriteString(" age=" + quote(timeText(p.Created, now, -1)))
	}
	if p.Priority != 0 {
		fmt.Fprintf(&b, " priority=%d", p.Priority)
	}
	if p.Owner != "" {
		b.WriteString(" owner=" + quote(p.Owner))
	}
	resourcesText(&b, p.CPUMilli, p.MemoryMi)
	b.WriteString(labelsText("selector", p.NodeSelector))
	b.WriteString(affinityText(p.Affinity))
	b.WriteString(tolerationsText(p.Tolerations))
	flagText(&b, "evictable", p.Evictable)
	flagText(&b, "daemonset", p.DaemonSet)
	b.WriteByte('\n')
	return b.String()
}
