package preview

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// The page's own colours.
const (
	ink    = "#24292e"
	faint  = "#6e7781"
	grid   = "#e6e8eb"
	paper  = "#ffffff"
	ground = "#f3f4f6"
)

// names are Grafana's colours by name, as its light theme has them or near it.
var names = map[string]string{
	"green": "#3f8f35", "yellow": "#c79100", "orange": "#e8690b", "red": "#d3263c", "blue": "#3274d9", "text": ink, "": ink,
}

func colour(name string) string {
	if hex, ok := names[name]; ok {
		return hex
	}
	return name
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
