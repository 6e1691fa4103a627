package main

import (
	"os"
	"runtime/debug"
)

// garbagePercent is how much garbage may pile up on what is in use: most of what a
// round makes is over with it, so the usual 100 would hold twice the caches for little
// of the processor's time.
const garbagePercent = 50

// tuneCollector sets up the garbage collector, unless GOGC says how.
func tuneCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}
