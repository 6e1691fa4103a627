package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// cpuTime is what a process has used of the processor so far, with the threads
// that it has now; 0 where the kernel does not say.
func cpuTime(pid int) time.Duration {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0
	}
	total := int64(0)
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
		var onCPU int64
		if _, scan := fmt.Sscan(string(text), &onCPU); err == nil && scan == nil {
			total += onCPU
		}
	}
	return time.Duration(total)
}

// rss is a process' resident memory in bytes; 0 where the kernel does not say.
func rss(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
