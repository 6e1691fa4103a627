package replay

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// curve is GPUs over time: the means over parts of equal length.
type curve struct {
	each time.Duration // length of a part
	gpus []float64
}

const points = 480

// curve returns a curve of zeros, as long as the trace is if no pod is ever pending.
func (t *trace) curve() curve {
	last := time.Duration(0)
	for i := range t.jobs {
		last = max(last, t.jobs[i].Created+t.jobs[i].Run)
	}
	return curve{max(last/points, time.Second), make([]float64, points)}
}

// add adds GPUs from a time on, for d. What lies beyond the end is left out.
func (c *curve) add(from, d time.Duration, gpus float64) {
	for d > 0 {
		i := int(from / c.each)
		if i >= len(c.gpus) {
			return
		}
		part := min(d, c.each-from%c.each)
		c.gpus[i] += gpus * float64(part) / float64(c.each)
		from, d = from+part, d-part
	}
}

// demand is what all pods request if none is ever pending.
func (t *trace) demand() curve {
	c := t.curve()
	for i := range t.jobs {
		c.add(t.jobs[i].Created, t.jobs[i].Run, t.gpus(&t.jobs[i]))
	}
	return c
}

// Sizes of the picture, in pixels.
const (
	pictureWidth = 960
	plotLeft     = 64
	plotWidth    = pictureWidth - plotLeft - 24
	plotHeight   = 120
	panelHeight  = plotHeight + 56
	titleHeight  = 56
)

// WriteSVG draws supply and demand over time, a panel for each policy, of the first
// seed.
func (r Result) WriteSVG(w io.Writer, title string) error {
	top := slices.Max(r.demand.gpus)
	for i := range r.Runs {
		top = max(top, slices.Max(r.Runs[i].curve.gpus))
	}
	step := nice(top / 4)
	top = math.Ceil(top/step) * step
	days := float64(r.demand.each) * points / float64(24*time.Hour)
	unit, length := "days", days
	if days < 3 {
		unit, length = "hours", days*24
	}
	var b strings.Builder
	height := titleHeight + panelHeight*len(r.Runs) + 24
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#222">`+"\n",
		pictureWidth, height, pictureWidth, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n"+`<text x="%d" y="22" font-size="16">%s</text>`+"\n", plotLeft, html.EscapeString(title))
	fmt.Fprintf(&b, `<rect x="%d" y="34" width="14" height="10" fill="#c9d7e8"/><text x="%d" y="44">requested if no pod is pending</text>`, plotLeft, plotLeft+20)
	fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="39" y2="39" stroke="#b3261e" stroke-width="2"/><text x="%d" y="44">paid for</text>`+"\n", plotLeft+200, plotLeft+214, plotLeft+220)
	for i := range r.Runs {
		run := &r.Runs[i]
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", plotLeft, titleHeight+panelHeight*i)
		fmt.Fprintf(&b, `<text y="10" font-weight="bold">%s: %.0f GPU-hours paid, %.0f s pending at p95</text>`+"\n", html.EscapeString(run.Policy), run.Paid, run.P95)
		fmt.Fprintf(&b, `<g transform="translate(0 18)">`+"\n")
		for y := 0.0; y <= top+step/2; y += step {
			at := plotHeight * (1 - y/top)
			fmt.Fprintf(&b, `<line x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="-6" y="%.1f" text-anchor="end">%g</text>`+"\n", plotWidth, at, at, at+4, y)
		}
		every := nice(length / 8)
		for x := 0.0; x <= length; x += every {
			fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%g</text>`, plotWidth*x/length, plotHeight+16, x)
		}
		fmt.Fprintf(&b, `<text x="-48" y="%d" transform="rotate(-90 -48 %d)" text-anchor="middle">GPUs</text>`+"\n", plotHeight/2, plotHeight/2)
		fmt.Fprintf(&b, `<path d="M0 %d %s L%d %d Z" fill="#c9d7e8"/>`+"\n", plotHeight, steps("L", r.demand.gpus, top), plotWidth, plotHeight)
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="#b3261e" stroke-width="1.5"/>`+"\n</g></g>\n", steps("M", run.curve.gpus, top))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">%s since the beginning of the part that is played</text>`+"\n</svg>\n", plotLeft+plotWidth/2, height-10, unit)
	_, err := io.WriteString(w, b.String())
	return err
}

// steps is a line with a step at each point.
func steps(begin string, gpus []float64, top float64) string {
	var b strings.Builder
	for i, y := range gpus {
		from, to := float64(plotWidth*i)/points, float64(plotWidth*(i+1))/points
		y = plotHeight * (1 - y/top)
		fmt.Fprintf(&b, "%s%.1f %.1f L%.1f %.1f ", begin, from, y, to, y)
		begin = "L"
	}
	return b.String()
}

// nice is the least of 1, 2 or 5 times a power of ten that is not below x.
func nice(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(x, 1e-3))))
	for _, n := range [...]float64{1, 2, 5} {
		if n*power >= x {
			return n * power
		}
	}
	return 10 * power
}
