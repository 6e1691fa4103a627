package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

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

// compilers holds that every program with cgo can be compiled for every architecture,
// before anything is. The error is about all of them at once.
func (r *release) compilers(ctx context.Context) error {
	var with, without []string
	for _, p := range r.programs {
		if p.Cgo {
			with = append(with, p.short)
		} else {
			without = append(without, p.short)
		}
	}
	if len(with) == 0 {
		return nil
	}
	var missing []error
	var there []string
	for _, arch := range r.arches {
		if err := gobuild.CheckCompiler(ctx, arch); err != nil {
			missing = append(missing, fmt.Errorf("linux/%s: %w", arch, err))
		} else {
			there = append(there, arch)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var choices []string
	if len(there) > 0 {
		choices = append(choices, "ARCHES="+strings.Join(there, ",")+" leaves the architecture out")
	}
	if len(without) > 0 {
		choices = append(choices, "ONLY="+strings.Join(without, ",")+" the programs")
	}
	err := fmt.Errorf("no C compiler for %s: %w", strings.Join(with, " and "), errors.Join(missing...))
	if len(choices) > 0 {
		err = fmt.Errorf("%w\n%s", err, strings.Join(choices, ", "))
	}
	return err
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
