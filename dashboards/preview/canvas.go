package preview

import (
	"fmt"
	"html"
	"strings"
	"unicode"
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
