package main

import (
	"os"
	"runtime/debug"
)

// garbagePercent is the collector's GOGC. Most allocations live for one reconcile; the
// default 100 would double the memory of the caches to save little CPU time.
const garbagePercent = 50

// tuneCollector sets up the garbage collector, unless GOGC is set.
func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}
