// Package proc runs the sandbox's programs as child processes.
//
// It owns their life: every child writes to a log file of its own, runs in a
// process group of its own (so that Ctrl-C reaches only the sandbox, which
// then ends the children in order), and is killed by the kernel when the
// sandbox itself is killed. A child that ends without having been stopped is
// reported once, with the last lines of its log.
//
// It never decides what to run or when a program is ready.
package proc
