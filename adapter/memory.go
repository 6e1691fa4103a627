package main

import (
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// garbagePercent is how much garbage may pile up on what is in use. Answers of
// Prometheus are large and soon over, so the usual 100 would double the memory
// for little of the processor's time.
const garbagePercent = 50

// memoryFiles say what the container may use, in control groups of version 2
// and of version 1.
var memoryFiles = [...]string{"memory.max", "memory/memory.limit_in_bytes"}

// tuneCollector sets up the garbage collector for the whole process.
func tuneCollector() {
	percent, limit := collector(os.Getenv, os.DirFS("/sys/fs/cgroup"))
	if percent >= 0 {
		debug.SetGCPercent(percent)
	}
	debug.SetMemoryLimit(limit) // leaves it alone if negative
}

// collector returns what to tell the garbage collector: its percentage, and
// the bytes beyond which it should work harder, nine tenths of what the
// container may use. Negative values leave things as they are: GOGC and
// GOMEMLIMIT, where the user has set them, say what holds.
func collector(getenv func(string) string, groups fs.FS) (percent int, limit int64) {
	percent, limit = -1, -1
	if getenv("GOGC") == "" {
		percent = garbagePercent
	}
	if getenv("GOMEMLIMIT") != "" {
		return percent, limit
	}
	for _, file := range memoryFiles {
		text, err := fs.ReadFile(groups, file)
		if err != nil {
			continue
		}
		// "max", and version 1's number of nearly 2^63, mean none.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && n < math.MaxInt64/2 {
			return percent, n / 10 * 9
		}
	}
	return percent, limit
}
