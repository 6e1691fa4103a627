package demand

import (
	"fmt"
	"strings"
)

// String returns the demand as text: "3g.40gb", "2 × 1g.10gb", "a GPU", "2 amd GPUs", "30 % core and 4096 MiB of a
// GPU", joined by " + ". The zero demand is "nothing". Equal demands have equal texts.
func (d Demand) String() string {
	var words []string
	maker := ""
	if d.Vendor != "" && d.Vendor != "nvidia" {
		maker = d.Vendor + " "
	}
	switch {
	case d.GPUs == 1 && maker == "":
		words = append(words, "a GPU")
	case d.GPUs == 1:
		words = append(words, "1 "+maker+"GPU")
	case d.GPUs > 1:
		words = append(words, fmt.Sprintf("%d %sGPUs", d.GPUs, maker))
	}
	for _, in := range d.MIG {
		if in.Count == 1 {
			words = append(words, in.Name)
		} else {
			words = append(words, fmt.Sprintf("%d × %s", in.Count, in.Name))
		}
	}
	if d.Fraction != nil {
		words = append(words, d.Fraction.String())
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " + ")
}

// String returns "30 % core and 4096 MiB of a GPU", or "a share of a GPU" where
// no size is stated.
func (f Fraction) String() string {
	var words []string
	if f.CoreMilli > 0 {
		words = append(words, percent(f.CoreMilli)+" core")
	}
	if f.MemoryMiB > 0 {
		words = append(words, fmt.Sprintf("%d MiB", f.MemoryMiB))
	}
	if f.MemoryMilli > 0 {
		words = append(words, percent(f.MemoryMilli)+" memory")
	}
	of := "a GPU"
	if f.GPUs > 1 {
		of = fmt.Sprintf("each of %d GPUs", f.GPUs)
	}
	switch {
	case len(words) == 0 && f.GPUs > 1:
		return fmt.Sprintf("%d shares of a GPU", f.GPUs)
	case len(words) == 0:
		return "a share of a GPU"
	}
	return strings.Join(words, " and ") + " of " + of
}

func percent(milli int) string { return fmt.Sprintf("%g %%", float64(milli)/10) }
