package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// request is one entry of a demand: "gpu" (NVIDIA's), "amd.gpu*2", "any.gpu", "3g.40gb*2",
// "part:core=500:memory-mib=8192".
type request struct {
	name string
	n    int
	part demand.Fraction
}

func demandFields(x *fields, missing bool, key string, d *demand.Demand) bool {
	all := requestsOf(*d)
	if !listUnless(x, missing, key, &all, requestFields) {
		return false
	}
	var err error
	if *d, err = demandOf(all); err != nil {
		x.fail(key, "%v", err)
	}
	return true
}

func requestFields(x *fields, r *request) {
	x.head(func() string {
		if r.n == 1 {
			return r.name
		}
		return r.name + "*" + strconv.Itoa(r.n)
	}, func(s string) (err error) {
		name, count, many := strings.Cut(s, "*")
		if r.name, r.n = name, 1; many {
			if r.n, err = strconv.Atoi(count); err != nil {
				return fmt.Errorf("%q: want a number after *", s)
			}
		}
		return nil
	})
	if r.name == "part" {
		x.count("core", &r.part.CoreMilli)
		x.count("memory-mib", &r.part.MemoryMiB)
		x.int("memory", &r.part.MemoryMilli)
		x.int("gpus", &r.part.GPUs)
	}
}

func requestsOf(d demand.Demand) (all []request) {
	if d.GPUs != 0 || d.Vendor != "" {
		name := d.Vendor + ".gpu"
		switch d.Vendor {
		case "nvidia":
			name = "gpu"
		case "":
			name = "any.gpu"
		}
		all = append(all, request{name: name, n: d.GPUs})
	}
	for _, i := range d.MIG {
		all = append(all, request{name: i.Name, n: i.Count})
	}
	if d.Fraction != nil {
		all = append(all, request{name: "part", n: 1, part: *d.Fraction})
	}
	return all
}

func demandOf(all []request) (demand.Demand, error) {
	var d demand.Demand
	for _, r := range all {
		vendor, ofVendor := strings.CutSuffix(r.name, ".gpu")
		switch {
		case r.name == "part":
			d.Fraction = &r.part
		case r.name == "gpu":
			d.GPUs, d.Vendor = r.n, "nvidia"
		case ofVendor && vendor == "any":
			d.GPUs, d.Vendor = r.n, ""
		case ofVendor:
			d.GPUs, d.Vendor = r.n, vendor
		default:
			parsed, err := mig.ParseName(r.name)
			if err != nil {
				return d, err
			}
			d.MIG = append(d.MIG, demand.Instances{Name: r.name, Count: r.n, MemoryGB: parsed.GB,
				Profile: mig.Profile{Compute: parsed.Compute, Attrs: parsed.Attrs}})
		}
	}
	return d, nil
}
