package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// readRequest reads one part of a demand: "gpu", "amd.gpu*2", "3g.40gb*2",
// "part:core=500:memory-mib=8192", "any.gpu".
func readRequest(it item, d *demand.Demand) error {
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
	if vendor, ok := vendorOf(name); ok {
		d.GPUs, d.Vendor = n, vendor
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

// vendorOf reads "gpu" (nvidia), "amd.gpu", "any.gpu" (no vendor).
func vendorOf(name string) (string, bool) {
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
		case "gpus":
			f.GPUs = n
		default:
			return fmt.Errorf("%q: a part has core, memory-mib, memory and gpus", s.name)
		}
	}
	d.Fraction = &f
	return nil
}

func demandFields(x *fields, d *demand.Demand) {
	var all demand.Demand
	if x.items("requests", func() []string { return demandWords(*d) }, func(it item) error { return readRequest(it, &all) }) {
		*d = all
	}
}

func demandWords(d demand.Demand) (words []string) {
	if d.GPUs != 0 || d.Vendor != "" {
		vendor := d.Vendor + "."
		switch d.Vendor {
		case "nvidia":
			vendor = ""
		case "":
			vendor = "any."
		}
		words = append(words, quote(vendor+"gpu"+times(d.GPUs)))
	}
	for _, i := range d.MIG {
		words = append(words, quote(i.Name+times(i.Count)))
	}
	if f := d.Fraction; f != nil {
		word := fmt.Sprintf("part:core=%d:memory-mib=%d", f.CoreMilli, f.MemoryMiB)
		if f.MemoryMilli != 0 {
			word += fmt.Sprintf(":memory=%d", f.MemoryMilli)
		}
		if f.GPUs != 0 {
			word += fmt.Sprintf(":gpus=%d", f.GPUs)
		}
		words = append(words, word)
	}
	return words
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return "*" + strconv.Itoa(n)
}
