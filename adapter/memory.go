package main

import (
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// garbagePercent is the default of GOGC. Answers of Prometheus are large and
// short-lived, so Go's own 100 would use twice the memory to save little CPU.
const garbagePercent = 50

// memoryFiles hold the container's memory limit, in control groups of version 2
// and of version 1.
var memoryFiles = [...]string{"memory.max", "memory/memory.limit_in_bytes"}

// tuneCollector sets up the garbage collector for the whole process.
func tuneCollector() {
	percent, limit := collector(os.Getenv, os.DirFS("/sys/fs/cgroup"))
	if percent >= 0 {
		debug.SetGCPercent(percent)
	}
	debug.SetMemoryLimit(limit) // a negative limit changes nothing
}

// collector returns the garbage collector's settings: GOGC's percentage, and a
// memory limit of nine tenths of the container's. A negative value changes
// nothing: GOGC and GOMEMLIMIT, where set, take precedence.
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
		// "max", and version 1's number of nearly 2^63, mean no limit.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && n < math.MaxInt64/2 {
			return percent, n / 10 * 9
		}
	}
	return percent, limit
}
