package preview

import (
	"fmt"
	"hash/fnv"
	"html"
	"strconv"
	"strings"
	"unicode"

	"github.com/gpuscale/gpuscale/dashboards/board"
)

// canvas collects SVG elements.
type canvas struct{ b strings.Builder }

func (c *canvas) addf(format string, args ...any) { fmt.Fprintf(&c.b, format, args...) }

func (c *canvas) rect(b box, fill, extra string) {
	c.addf(`<rect x="%s" y="%s" width="%s" height="%s" fill="%s" %s/>`, px(b.x), px(b.y), px(b.w), px(b.h), fill, extra)
}

// anchors of a text.
const (
	start  = "start"
	middle = "middle"
	end    = "end"
)

func (c *canvas) text(x, y, size float64, anchor, fill, text string) {
	c.addf(`<text x="%s" y="%s" font-size="%s" text-anchor="%s" fill="%s">%s</text>`, px(x), px(y), px(size), anchor, fill, html.EscapeString(text))
}

func (c *canvas) bold(x, y, size float64, anchor, fill, text string) {
	c.addf(`<text x="%s" y="%s" font-size="%s" font-weight="600" text-anchor="%s" fill="%s">%s</text>`, px(x), px(y), px(size), anchor, fill, html.EscapeString(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, stroke, extra string) {
	c.addf(`<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s" %s/>`, px(x1), px(y1), px(x2), px(y2), stroke, extra)
}

// px formats a length with one decimal.
func px(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// box is a rectangle.
type box struct{ x, y, w, h float64 }

func (b box) shrink(left, top, right, bottom float64) box {
	return box{b.x + left, b.y + top, b.w - left - right, b.h - top - bottom}
}

// letter is the mean width of a letter of a size of 1.
const letter = 0.54

// fit truncates a text to a width.
func fit(text string, size, width float64) string {
	runes := []rune(text)
	if n := int(width / (size * letter)); len(runes) > n {
		if n < 2 {
			return ""
		}
		return string(runes[:n-1]) + "…"
	}
	return text
}

// widthOf is about a text's width: capitals and digits are wider than other letters.
func widthOf(text string, size float64) float64 {
	wide := 0
	for _, r := range text {
		if unicode.IsUpper(r) || unicode.IsDigit(r) {
			wide++
		}
	}
	return (float64(len([]rune(text))) + 0.25*float64(wide)) * size * letter
}

// The page's own colours.
const (
	ink    = "#24292e"
	faint  = "#6e7781"
	grid   = "#e6e8eb"
	paper  = "#ffffff"
	ground = "#f3f4f6"
)

// names are Grafana's colours by name, as its light theme has them or near it.
var names = map[board.Colour]string{
	board.Good: "#3f8f35", board.Watch: "#c79100", board.Warn: "#e8690b", board.Bad: "#d3263c", board.Plain: "#3274d9", board.Ink: ink, "": ink,
}

func colour(c board.Colour) string {
	if hex, ok := names[c]; ok {
		return hex
	}
	return string(c)
}

// palette is for series whose colour has no meaning.
var palette = []string{"#3274d9", "#e8690b", "#8f3bb8", "#33a2a8", "#c79100", "#3f8f35", "#c15c8f", "#5f6f94", "#a67c52", "#7c9a2c"}

// colours gives each name a colour of the palette, by its name, or another where that is taken.
func colours(all []string) map[string]string {
	taken, out := map[int]bool{}, map[string]string{}
	for _, name := range all {
		h := fnv.New32a()
		_, _ = h.Write([]byte(name))
		i := int(h.Sum32() % uint32(len(palette)))
		for range palette {
			if !taken[i] {
				break
			}
			i = (i + 1) % len(palette)
		}
		taken[i], out[name] = true, palette[i]
	}
	return out
}

// on is the colour of a text on a background.
func on(background string) string {
	v, err := strconv.ParseUint(strings.TrimPrefix(background, "#"), 16, 32)
	if err != nil || len(background) != 7 {
		return ink
	}
	r, g, b := float64(v>>16), float64(v>>8&255), float64(v&255)
	if 0.299*r+0.587*g+0.114*b > 150 {
		return ink
	}
	return paper
}
