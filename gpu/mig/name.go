package mig

import (
	"fmt"
	"strconv"
	"strings"
)

// Name is what a profile's name states by itself, without a product's table.
type Name struct {
	Compute int  // compute slices
	GB      int  // memory as named; 0 where the name has none ("3g")
	Attrs   Attr // attributes
}

// String returns the driver's spelling: "3g.40gb", "1g.10gb+me", "1g.24gb-me".
func (n Name) String() string {
	if n.GB == 0 {
		return fmt.Sprintf("%dg%s", n.Compute, n.Attrs)
	}
	return fmt.Sprintf("%dg.%dgb%s", n.Compute, n.GB, n.Attrs)
}

// ParseName reads a profile name in the driver's spelling ("1g.10gb+me"), the
// resource's ("1g.10gb.me") or ours without memory ("3g", "1g+me"). Compute
// instances inside an instance ("1c.3g.20gb") are refused: no resource has them.
func ParseName(name string) (Name, error) {
	fail := func(why string) (Name, error) {
		return Name{}, fmt.Errorf("MIG profile %q: %s", name, why)
	}
	compute, rest, ok := leadingNumber(name)
	if !ok {
		return fail("want compute slices first, as in 3g.40gb")
	}
	if strings.HasPrefix(rest, "c.") {
		return fail("is a compute instance, want a GPU instance as in 3g.40gb")
	}
	if rest, ok = strings.CutPrefix(rest, "g"); !ok || compute == 0 {
		return fail("want compute slices first, as in 3g.40gb")
	}
	n := Name{Compute: compute}
	if after, found := strings.CutPrefix(rest, "."); found && after != "" && after[0] <= '9' {
		gb, unit, number := leadingNumber(after)
		if rest, ok = strings.CutPrefix(unit, "gb"); !ok || !number {
			return fail("want memory in gb, as in 3g.40gb")
		}
		n.GB = gb
	}
	if n.Attrs, ok = parseAttrs(rest); !ok {
		return fail("unknown attributes " + strconv.Quote(rest) + ", want +me, +gfx, +me.all or -me")
	}
	return n, nil
}

// leadingNumber takes 1 … 4 leading digits off s, no leading zero.
func leadingNumber(s string) (n int, rest string, ok bool) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		if i++; i > 4 {
			return 0, s, false
		}
	}
	return n, s[i:], i > 0 && s[0] != '0'
}

func parseAttrs(s string) (Attr, bool) {
	var a Attr
	s, none := strings.CutSuffix(s, "-me")
	if none {
		a = AttrNoMedia
	}
	if s == "" {
		return a, true
	}
	if s[0] != '+' && s[0] != '.' {
		return 0, false
	}
	for s != "" {
		// s[0] is "+" or ".", then the separator of two attributes: the driver
		// writes a comma, which a resource's name cannot have.
		bit, rest := leadingAttr(s[1:])
		if bit == 0 || a&bit != 0 || rest != "" && rest[0] != ',' && rest[0] != '.' {
			return 0, false
		}
		a, s = a|bit, rest
	}
	return a, true
}

// leadingAttr takes one attribute's word off s; none is 0.
func leadingAttr(s string) (Attr, string) {
	for _, w := range []struct {
		word string
		bit  Attr
	}{{"me.all", AttrAllMedia}, {"me", AttrMedia}, {"gfx", AttrGraphics}} {
		if rest, ok := strings.CutPrefix(s, w.word); ok {
			return w.bit, rest
		}
	}
	return 0, s
}

// Exact returns this product's profile with that name, in a driver's spelling or a
// resource's. Other drivers' names of the profile count too. Use it for requests: a
// neighbouring size is another resource.
func (t *Table) Exact(name string) (Profile, bool) {
	p, ok := t.names[name]
	if !ok {
		if n, err := ParseName(name); err == nil {
			p, ok = t.names[n.String()]
		}
	}
	return p, ok
}

// Lookup returns the profile a name means on this product. It tolerates the
// driver's rounding of memory (3g.39gb is 3g.40gb): compute slices and
// attributes must agree, memory is the nearest within a tenth or 1 GB. A name
// without memory ("1g") is the profile with the least. Use it for what a driver
// reports about a GPU of this product.
func (t *Table) Lookup(name string) (Profile, error) {
	if p, ok := t.Exact(name); ok {
		return p, nil
	}
	n, err := ParseName(name)
	if err != nil {
		return Profile{}, err
	}
	best, found := entry{}, false
	for _, e := range t.entries {
		if e.Compute != n.Compute || e.Attrs != n.Attrs {
			continue
		}
		if n.GB == 0 { // entries are sorted, so the first has the least memory
			return e.Profile, nil
		}
		if !found || distance(e.gb, n.GB) < distance(best.gb, n.GB) {
			best, found = e, true
		}
	}
	switch {
	case !found:
		return Profile{}, fmt.Errorf("MIG profile %q: %s has none with these compute slices and attributes", name, t.model)
	case distance(best.gb, n.GB) > max(1, best.gb/10):
		return Profile{}, fmt.Errorf("MIG profile %q: the nearest on %s is %s", name, t.model, best.name)
	}
	return best.Profile, nil
}

func distance(a, b int) int {
	if a > b {
		return a - b
	}
	return b - a
}

// resourcePrefix begins the device plugin's resource names under the mixed
// strategy.
const resourcePrefix = "nvidia.com/mig-"

// ResourceName returns the extended resource of a profile under the mixed
// strategy: "1g.10gb+me" is "nvidia.com/mig-1g.10gb.me".
func ResourceName(profileName string) string {
	return resourcePrefix + strings.NewReplacer("+", ".", ",", ".").Replace(profileName)
}

// ProfileOfResource returns the driver's spelling of the profile whose resource
// this is: "nvidia.com/mig-1g.10gb.me" gives "1g.10gb+me". It is false for any
// other resource, shared replicas of an instance (".shared") included.
func ProfileOfResource(resource string) (name string, ok bool) {
	spelled, ok := strings.CutPrefix(resource, resourcePrefix)
	if !ok {
		return "", false
	}
	n, err := ParseName(spelled)
	if err != nil || n.GB == 0 {
		return "", false
	}
	return n.String(), true
}
