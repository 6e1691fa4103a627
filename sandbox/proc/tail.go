package proc

import (
	"io"
	"os"
	"path"
	"regexp"
	"strings"
)

// tailBytes of a log are looked at: the dump of a thousand goroutines, and
// what stands above it.
const tailBytes = 4 << 20

// Of a Go program that crashed: lines above the dump, and frames of the
// goroutine that did it.
const (
	crashLines  = 8
	crashFrames = 4
)

// ours is how our own functions begin in a dump.
const ours = "github.com/gpuscale/gpuscale/"

// Tail returns the part of a dead program's log that explains its death: its last
// n lines, long ones truncated, and of a Go crash the message and the first frames of
// our code instead of the dump; empty when it cannot be read.
func Tail(file string, n int) []string {
	text := strings.TrimRight(readEnd(file), "\n ")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	if at, ok := dump(lines); ok {
		frames := crashed(lines[at:])
		lines = lines[:at]
		for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
			lines = lines[:len(lines)-1]
		}
		lines = append(lines[max(0, len(lines)-crashLines):len(lines):len(lines)], frames...)
	}
	lines = lines[max(0, len(lines)-n):]
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

// A dump consists of these: "goroutine 1 [running]:", "main.run(0x1, ...)",
// a file with its line, "created by main.main in goroutine 1", registers.
var dumped = regexp.MustCompile(`^(goroutine \d+.*:|\S+\(.*\)|\t.*|created by .*|r\w+ +0x[0-9a-f]+|[c-g]s +0x[0-9a-f]+|\.\.\.additional frames.*|exit status \d+|)$`)

var goroutine = regexp.MustCompile(`^goroutine \d+.*:$`)

// dump finds where the dump begins that the log ends with. One in the middle
// belongs to something that the program survived.
func dump(lines []string) (int, bool) {
	first, found := len(lines), false
	for i := len(lines) - 1; i >= 0 && dumped.MatchString(lines[i]); i-- {
		if goroutine.MatchString(lines[i]) {
			first, found = i, true
		}
	}
	return first, found
}

// crashed names the first frames of the goroutine that crashed, which is the
// first in a dump: those of our code, or the first there are.
func crashed(lines []string) []string {
	var all, own []string
	for i := 1; i+1 < len(lines) && lines[i] != ""; i++ {
		call, where := lines[i], lines[i+1]
		if !strings.HasPrefix(where, "\t") || strings.HasPrefix(call, "\t") ||
			strings.HasPrefix(call, "panic(") || strings.HasPrefix(call, "runtime.") || strings.HasPrefix(call, "created by ") {
			continue
		}
		frame := "  at " + function(call) + " (" + position(where) + ")"
		all = append(all, frame)
		if strings.HasPrefix(call, ours) || strings.HasPrefix(call, "main.") {
			own = append(own, frame)
		}
	}
	if len(own) > 0 {
		all = own
	}
	return all[:min(len(all), crashFrames)]
}

// function without its arguments and our module's path.
func function(call string) string {
	if i := strings.LastIndex(call, "("); i > 0 {
		call = call[:i]
	}
	return strings.TrimPrefix(call, ours)
}

// position is a frame's file and line: "loop.go:42".
func position(where string) string {
	where, _, _ = strings.Cut(strings.TrimSpace(where), " ")
	return path.Base(where)
}
