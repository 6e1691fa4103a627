// Package buildinfo says which build of gpuscale a binary is: its version, the
// commit, the Go that made it and the platform. It reads what the linker and the
// toolchain wrote into the binary, and never asks git.
package buildinfo
