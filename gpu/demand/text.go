package demand

import (
	"fmt"
	"strings"
)

// String returns the demand as text: "3g.40gb×1", "2 GPUs", "1 amd GPU", "30 %
// core + 4096 MiB of a GPU", joined by ", ". The zero demand is "none". Equal
// demands have equal texts.
func (d Demand) String() string {
	var words []string
	if d.GPUs > 0 {
		words = append(words, gpusText(d.GPUs, d.Vendor))
	}
	for _, in := range d.MIG {
		words = append(words, fmt.Sprintf("%s×%d", in.Name, in.Count))
	}
	if d.Fraction != nil {
		words = append(words, d.Fraction.String())
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func gpusText(n int, vendor string) string {
	word := "GPUs"
	if n == 1 {
		word = "GPU"
	}
	if vendor != "" && vendor != "nvidia" {
		word = vendor + " " + word
	}
	return fmt.Sprintf("%d %s", n, word)
}

// String returns "30 % core + 4096 MiB of a GPU", or "a share of a GPU" where
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
	return strings.Join(words, " + ") + " of " + of
}

func percent(milli int) string { return fmt.Sprintf("%g %%", float64(milli)/10) }
