package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

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
		d.Fraction = &demand.Fraction{}
		return readBehind(it, time.Time{}, func(x *fields) { partFields(x, d.Fraction) })
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

func partFields(x *fields, f *demand.Fraction) {
	x.count("core", &f.CoreMilli)
	x.count("memory-mib", &f.MemoryMiB)
	x.int("memory", &f.MemoryMilli)
	x.int("gpus", &f.GPUs)
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
	if d.Fraction != nil {
		words = append(words, "part"+behind(time.Time{}, func(x *fields) { partFields(x, d.Fraction) }))
	}
	return words
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return "*" + strconv.Itoa(n)
}
