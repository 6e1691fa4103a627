package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/gpuscale/gpuscale/internal/release/gobuild"
	"github.com/gpuscale/gpuscale/internal/release/sbom"
)

// built is a program for one architecture.
type built struct {
	program
	arch string
	file string // where it lies
	data []byte
	info *debug.BuildInfo
}

// build compiles one program into dir and holds what is promised of it.
func (r *release) build(ctx context.Context, dir string, p program, arch string) (built, error) {
	file := filepath.Join(dir, p.Name+"-"+arch)
	err := gobuild.Build(ctx, gobuild.Options{
		Dir: r.source.dir, Program: p.Program, Arch: arch, Version: r.version, Commit: r.source.commit, Output: file,
	})
	if err != nil {
		return built{}, err
	}
	if err := gobuild.CheckLinkage(file, p.Cgo); err != nil {
		return built{}, err
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return built{}, fmt.Errorf("%s: %w", file, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return built{}, err
	}
	return built{program: p, arch: arch, file: file, data: data, info: info}, nil
}

func (r *release) sbom(b built) ([]byte, error) {
	hash := sha256.Sum256(b.data)
	return sbom.CycloneDX(b.info, sbom.Subject{
		Name: b.Name, Version: r.version, Commit: r.source.commit, SHA256: hex.EncodeToString(hash[:]), At: r.source.at,
	})
}
