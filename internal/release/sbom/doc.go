// Package sbom says what a Go binary is made of, as CycloneDX 1.6, from what
// the toolchain wrote into the binary itself. It knows no licences and nothing
// that is loaded at run time (libc, DCGM, NVML).
package sbom
