// Package proc runs the sandbox's programs as child processes.
//
// It owns their lifetime. Every child writes to its own log file and runs in its own process group: Ctrl-C
// reaches only the sandbox, which then ends the children in order. The kernel kills the children when the
// sandbox is killed. A child that ends without having been stopped is reported once, with the last lines of
// its log.
//
// It does not decide what to run, or when a program is ready.
package proc
