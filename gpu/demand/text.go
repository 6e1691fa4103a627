package demand

import (
	"fmt"
	"strings"
)

// String returns the demand as people read it: "3g.40gb×1", "2 cards",
// "1 amd card", "30 % core + 4096 MiB of a card", joined by ", ". Nothing wanted
// is "none". Equal demands have equal texts.
func (d Demand) String() string {
	var words []string
	if d.Cards > 0 {
		words = append(words, cardsText(d.Cards, d.Vendor))
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

func cardsText(n int, vendor string) string {
	word := "cards"
	if n == 1 {
		word = "card"
	}
	if vendor != "" && vendor != "nvidia" {
		word = vendor + " " + word
	}
	return fmt.Sprintf("%d %s", n, word)
}

// String returns "30 % core + 4096 MiB of a card", or "a share of a card" where
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
	of := "a card"
	if f.Cards > 1 {
		of = fmt.Sprintf("each of %d cards", f.Cards)
	}
	if len(words) == 0 {
		return "a share of " + of
	}
	return strings.Join(words, " + ") + " of " + of
}

func percent(milli int) string { return fmt.Sprintf("%g %%", float64(milli)/10) }
