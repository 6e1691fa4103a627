package preview

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// ErrNoBrowser is returned where no headless browser is installed.
var ErrNoBrowser = errors.New("no chromium: pictures stay SVG")

// browsers by the names they are installed under.
var browsers = []string{"chromium", "chromium-browser", "google-chrome"}

// PNG turns an SVG of Board into a PNG of at most 256 colours, with a headless
// browser.
func PNG(ctx context.Context, svg string) ([]byte, error) {
	browser := ""
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		return nil, ErrNoBrowser
	}
	dir, err := os.MkdirTemp("", "gpuscale-preview-")
	if err != nil {
		return nil, fmt.Errorf("drawing a picture: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	size := svgSize.FindStringSubmatch(svg)
	if size == nil {
		return nil, errors.New("drawing a picture: not an SVG of ours")
	}
	source, target := filepath.Join(dir, "board.html"), filepath.Join(dir, "board.png")
	page := `<!doctype html><meta charset="utf-8"><style>body{margin:0;overflow:hidden}svg{display:block}</style>` + svg
	if err := os.WriteFile(source, []byte(page), 0o600); err != nil {
		return nil, fmt.Errorf("drawing a picture: %w", err)
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir="+dir, "--window-size="+size[1]+","+size[2], "--screenshot="+target, "file://"+source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("drawing a picture: %w: %s", err, bytes.TrimSpace(out))
	}
	raw, err := os.ReadFile(target)
	if err != nil {
		return nil, fmt.Errorf("drawing a picture: %w", err)
	}
	return reduce(raw)
}

var svgSize = regexp.MustCompile(`^<svg [^>]*width="(\d+)" height="(\d+)"`)

// reduce writes a picture with its 256 most frequent colours, at a third of the size
// and, with flat areas and thin letters, the same look.
func reduce(raw []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("drawing a picture: %w", err)
	}
	few := image.NewPaletted(full.Bounds(), paletteOf(full))
	draw.Draw(few, few.Bounds(), full, full.Bounds().Min, draw.Src)
	var out bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestCompression}
	if err := enc.Encode(&out, few); err != nil {
		return nil, fmt.Errorf("drawing a picture: %w", err)
	}
	return out.Bytes(), nil
}

// coarse is how many levels of a channel are taken together.
const coarse = 12

func paletteOf(img image.Image) color.Palette {
	type sum struct{ r, g, b, n int }
	sums := map[[3]int]*sum{}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, bl, _ := img.At(x, y).RGBA()
			p := [3]int{int(r >> 8), int(g >> 8), int(bl >> 8)}
			key := [3]int{p[0] / coarse, p[1] / coarse, p[2] / coarse}
			s := sums[key]
			if s == nil {
				s = &sum{}
				sums[key] = s
			}
			s.r, s.g, s.b, s.n = s.r+p[0], s.g+p[1], s.b+p[2], s.n+1
		}
	}
	keys := make([][3]int, 0, len(sums))
	for k := range sums {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [3]int) int {
		if d := sums[b].n - sums[a].n; d != 0 {
			return d
		}
		return slices.Compare(a[:], b[:])
	})
	var p color.Palette
	for _, k := range keys[:min(256, len(keys))] {
		s := sums[k]
		p = append(p, color.RGBA{uint8(s.r / s.n), uint8(s.g / s.n), uint8(s.b / s.n), 255})
	}
	return p
}

// Write draws a board into a folder as board-<name>.png, or as .svg where there is
// no browser, and returns the file's path.
func Write(ctx context.Context, folder, name, svg string) (string, error) {
	picture, err := PNG(ctx, svg)
	extension := ".png"
	if errors.Is(err, ErrNoBrowser) {
		picture, extension, err = []byte(svg), ".svg", nil
	}
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "board-"+name+extension)
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		return "", fmt.Errorf("writing a picture: %w", err)
	}
	return path, nil
}
