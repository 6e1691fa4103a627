package mig

import (
	"fmt"
	"strconv"
	"strings"
)

// String returns the Spec in one line, as it is published and as ParseSpec reads
// it: the product, its compute slices, memory slices, MiB and media engines, and
// for each profile its name, starts, size, most on a GPU, media engines and other
// names. Model must be a gpu.ProductName, which has no blanks.
//
//	H100-80GB 7 8 81559 0 1g.10gb:0,1,2,3,4,5,6:1:7 3g.40gb:0,4:4:2:0:3g.39gb
func (s Spec) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %d %d %d", s.Model, s.ComputeSlices, s.MemorySlices, s.MemoryMiB, s.MediaEngines)
	for _, p := range s.Profiles {
		starts := make([]string, len(p.Starts))
		for i, start := range p.Starts {
			starts[i] = strconv.Itoa(start)
		}
		fmt.Fprintf(&b, " %s:%s:%d:%d", p.Name, strings.Join(starts, ","), p.Memory, p.Max)
		if p.Media != 0 || len(p.Aliases) > 0 {
			fmt.Fprintf(&b, ":%d", p.Media)
		}
		if len(p.Aliases) > 0 {
			// Names may have commas in their attributes, never a bar.
			b.WriteString(":" + strings.Join(p.Aliases, "|"))
		}
	}
	return b.String()
}

// ParseSpec reads what Spec.String prints. NewTable checks whether such a GPU is possible. The
// error names the word that is wrong.
func ParseSpec(line string) (Spec, error) {
	words := strings.Fields(line)
	if len(words) < 5 {
		return Spec{}, fmt.Errorf("MIG table %q: want a product, its compute slices, memory slices, MiB and media engines", line)
	}
	s := Spec{Model: words[0]}
	for i, field := range []*int{&s.ComputeSlices, &s.MemorySlices, &s.MemoryMiB, &s.MediaEngines} {
		n, ok := parseCount(words[1+i])
		if !ok {
			return Spec{}, fmt.Errorf("MIG table of %s: %q is not a number", s.Model, words[1+i])
		}
		*field = n
	}
	for _, word := range words[5:] {
		p, err := parseProfileSpec(word)
		if err != nil {
			return Spec{}, fmt.Errorf("MIG table of %s: %q: %w", s.Model, word, err)
		}
		s.Profiles = append(s.Profiles, p)
	}
	return s, nil
}

func parseProfileSpec(word string) (ProfileSpec, error) {
	parts := strings.Split(word, ":")
	if len(parts) < 4 || len(parts) > 6 {
		return ProfileSpec{}, fmt.Errorf("want name:starts:size:max, as in 3g.40gb:0,4:4:2")
	}
	name, err := ParseName(parts[0])
	if err != nil {
		return ProfileSpec{}, err
	}
	p := ProfileSpec{Profile: Profile{Compute: name.Compute, Attrs: name.Attrs}, Name: name.String()}
	for _, start := range strings.Split(parts[1], ",") {
		n, ok := parseCount(start)
		if !ok {
			return ProfileSpec{}, fmt.Errorf("start %q is not a memory slice", start)
		}
		p.Starts = append(p.Starts, n)
	}
	for i, field := range []*int{&p.Memory, &p.Max, &p.Media} {
		if 2+i >= len(parts) {
			break
		}
		n, ok := parseCount(parts[2+i])
		if !ok {
			return ProfileSpec{}, fmt.Errorf("%q is not a number", parts[2+i])
		}
		*field = n
	}
	if len(parts) == 6 {
		for _, alias := range strings.Split(parts[5], "|") {
			a, err := ParseName(alias)
			if err != nil {
				return ProfileSpec{}, err
			}
			p.Aliases = append(p.Aliases, a.String())
		}
	}
	return p, nil
}

// parseCount reads a number of at most 24 bits.
func parseCount(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 24)
	return int(n), err == nil
}
