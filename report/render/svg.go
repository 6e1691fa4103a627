package render

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/model"
)

// svg writes a picture. Colours are CSS classes, so they follow the page's style. Every picture has a title,
// and a table beside it has its figures.
type svg struct{ b strings.Builder }

func picture(class, title string, width, height float64, stretch bool) *svg {
	s := &svg{}
	aspect := ""
	if stretch {
		aspect = ` preserveAspectRatio="none"`
	}
	fmt.Fprintf(&s.b, `<svg class="%s" viewBox="0 0 %s %s" role="img" aria-label="%s"%s><title>%s</title>`, class, f(width), f(height), escaped(title), aspect, escaped(title))
	return s
}

func (s *svg) rect(class string, x, y, w, h float64, title string) {
	if w <= 0 || h <= 0 {
		return
	}
	fmt.Fprintf(&s.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"`, class, f(x), f(y), f(w), f(h))
	if title == "" {
		s.b.WriteString("/>")
		return
	}
	fmt.Fprintf(&s.b, "><title>%s</title></rect>", escaped(title))
}

func (s *svg) path(class, d string) {
	if d != "" {
		fmt.Fprintf(&s.b, `<path class="%s" d="%s"/>`, class, d)
	}
}

func (s *svg) html() template.HTML { return template.HTML(s.b.String() + "</svg>") }

// f formats a coordinate; equal numbers give the same text.
func f(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

func escaped(s string) string { return template.HTMLEscapeString(text.Line(s)) }

// waterfall draws the share of each place, from the end of the one before. The last one ends at the capacity.
func waterfall(places []model.Place) []template.HTML {
	pictures, at := make([]template.HTML, len(places)), 0.0
	for i, p := range places {
		share := p.Share.Or(0)
		if share <= 0 {
			continue
		}
		s := picture("bar", fmt.Sprintf("%s: %s of the capacity", p.Name, model.Share(p.Share)), 1000, 10, true)
		s.rect("track", 0, 0, 1000, 10, "")
		width := math.Max(1000*share, 1.5)
		s.rect("g-"+p.Group+" p-"+p.Place, math.Min(1000*at, 1000-width), 0, width, 10, "")
		at += share
		pictures[i] = s.html()
	}
	return pictures
}

// stack draws the places over time, with computing at the bottom.
func stack(r model.Report) template.HTML {
	n := len(r.Hours.Over)
	if n == 0 {
		return ""
	}
	most := 0.0
	sums := make([]float64, n)
	for i, b := range r.Hours.Over {
		for _, h := range b.Hours {
			sums[i] += h.Or(0)
		}
		sums[i] /= b.Until.Sub(b.From).Hours()
		most = math.Max(most, sums[i])
	}
	if most == 0 {
		return ""
	}
	const width, height = 1000.0, 220.0
	s := picture("stack", fmt.Sprintf("GPUs by place over time, at most %.3g GPUs", most), width, height, true)
	each := width / float64(n)
	for i, b := range r.Hours.Over {
		y := height
		for p := len(b.Hours) - 1; p >= 0; p-- {
			gpus := b.Hours[p].Or(0) / b.Until.Sub(b.From).Hours()
			h := height * gpus / most
			place := r.Hours.Places[p]
			s.rect("g-"+place.Group+" p-"+place.Place, float64(i)*each+each*0.06, y-h, each*0.88, h, fmt.Sprintf("%s, %s: %.3g GPUs", Time(b.From), place.Name, gpus))
			y -= h
		}
	}
	return s.html()
}

// shares draws how the GPUs allocated to a row were used.
func shares(row model.UseRow) template.HTML {
	allocated := row.Allocated.Or(0)
	if allocated <= 0 {
		return ""
	}
	used, idle := row.Used.Or(0)/allocated, row.Idle.Or(0)/allocated
	s := picture("mini", fmt.Sprintf("computing %.0f %%, idle %.0f %%", 100*used, 100*idle), 100, 10, true)
	s.rect("track", 0, 0, 100, 10, "")
	s.rect("g-productive", 0, 0, 100*used, 10, "")
	s.rect("g-allocated p-idle", 100-100*idle, 0, 100*idle, 10, "")
	return s.html()
}

// outlook draws allocated GPUs, the forecast's band and the limit over time.
func outlook(o model.Outlook) template.HTML {
	if len(o.Past) == 0 {
		return ""
	}
	const width, height = 1000.0, 200.0
	first, last := o.Past[0].At, o.Past[len(o.Past)-1].At
	if n := len(o.Ahead); n > 0 {
		last = o.Ahead[n-1].At
	}
	most := o.Limit.Or(0)
	for _, p := range o.Past {
		most = math.Max(most, p.GPUs.Or(0))
	}
	for _, b := range o.Ahead {
		most = math.Max(most, math.Max(b.High.Or(0), b.High95.Or(0)))
	}
	if most == 0 || !first.Before(last) {
		return ""
	}
	most *= 1.08
	x := func(t time.Time) float64 { return width * float64(t.Sub(first)) / float64(last.Sub(first)) }
	y := func(v float64) float64 { return height - height*v/most }
	at := func(letter string, t time.Time, gpus model.Number) string {
		return fmt.Sprintf("%s%s %s", letter, f(x(t)), f(y(gpus.Or(0))))
	}
	s := picture("outlook", fmt.Sprintf("GPUs of %s, allocated and forecast; limit %s", o.Of, model.Digits(o.Limit)), width, height, true)
	if len(o.Ahead) > 0 {
		now := o.Past[len(o.Past)-1]
		begin := at("M", now.At, now.GPUs)
		band := func(class string, low, high func(model.Band) model.Number) {
			d := begin
			for _, b := range o.Ahead {
				d += at("L", b.At, high(b))
			}
			for _, b := range slices.Backward(o.Ahead) {
				d += at("L", b.At, low(b))
			}
			s.path(class, d+"Z")
		}
		band("wide", func(b model.Band) model.Number { return b.Low95 }, func(b model.Band) model.Number { return b.High95 })
		band("band", func(b model.Band) model.Number { return b.Low }, func(b model.Band) model.Number { return b.High })
		line := begin
		for _, b := range o.Ahead {
			line += at("L", b.At, b.Expected)
		}
		s.path("expected", line)
		s.path("now", fmt.Sprintf("M%s 0V%s", f(x(now.At)), f(height)))
	}
	past := ""
	for _, p := range o.Past {
		past += at("L", p.At, p.GPUs)
	}
	s.path("past", "M"+past[1:])
	if v, ok := o.Limit.Get(); ok {
		s.path("limit", fmt.Sprintf("M0 %sH%s", f(y(v)), f(width)))
	}
	return "<div>" + s.html() + template.HTML(fmt.Sprintf("</div>\n<p class=\"axis\"><span>%s</span><span>%s</span></p>", Time(first), Time(last)))
}

// device draws a GPU's slices: allocated instances are filled, free ones are framed, and slices without an
// instance are empty.
func device(c model.MIGGPU) template.HTML {
	const slice, height = 20.0, 22.0
	var words []string
	for _, i := range c.Instances {
		who := "free"
		if i.AllocatedTo != "" {
			who = "allocated to " + i.AllocatedTo
		}
		words = append(words, i.Profile+" "+who)
	}
	s := picture("gpu", fmt.Sprintf("GPU %s of %s: %s", c.GPU, c.Node, strings.Join(words, ", ")), slice*float64(c.Slices), height, false)
	s.rect("whole", 0.5, 0.5, slice*float64(c.Slices)-1, height-1, "no instance")
	for k, i := range c.Instances {
		class := "i-free"
		if i.AllocatedTo != "" {
			class = "i-allocated"
		}
		s.rect(class, slice*float64(i.Start)+1.5, 1.5, slice*float64(i.Size)-3, height-3, words[k])
	}
	return s.html()
}
