//go:build unix && !linux

package proc

import "syscall"

// Only Linux can end a child when its parent dies.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
