//go:build unix && !linux

package proc

import "syscall"

// Only Linux can tie a child's life to ours.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
