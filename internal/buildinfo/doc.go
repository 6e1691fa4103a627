// Package buildinfo identifies the build of a binary: its version, commit, Go
// version and platform. It reads what the linker and the toolchain wrote into the
// binary, and never runs git.
package buildinfo
