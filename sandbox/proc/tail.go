package proc

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// tailBytes is how much of a log is read: enough for the dump of a thousand goroutines and the lines before
// it.
const tailBytes = 4 << 20

// crash matches the first line that a crashing Go program writes: the message before the dump of its
// goroutines.
var crash = regexp.MustCompile(`^(panic|fatal error): `)

// Tail returns the part of a dead program's log that explains its death: the last n lines, and for a crashed
// Go program also the message and the lines after it. Long lines are truncated. It returns nothing if the log
// cannot be read.
func Tail(file string, n int) []string {
	text := strings.TrimRight(readEnd(file), "\n ")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	last := max(0, len(lines)-n)
	for i := last - 1; i >= 0; i-- {
		if crash.MatchString(lines[i]) {
			end := min(i+n, len(lines))
			lines = slices.Concat(lines[i:end], lines[max(end, len(lines)-n/2):])
			last = 0
			break
		}
	}
	lines = lines[last:]
	for i, line := range lines {
		lines[i] = shorten(line)
	}
	return lines
}

func shorten(line string) string {
	if at := strings.Index(line, `"stacktrace":`); at >= 0 {
		line = line[:at] + "…"
	}
	if len(line) > 400 {
		line = strings.ToValidUTF8(line[:400], "") + "…"
	}
	return line
}

func readEnd(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, size-tailBytes), io.SeekStart)
	}
	data, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return ""
	}
	return string(data)
}
