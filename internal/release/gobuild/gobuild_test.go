package gobuild

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A module that prints what the linker was told, and what a panic would show.
// It stands for the programs, whose own packages take minutes: the flags are
// the same, `make release-check` takes the real ones.
const (
	goMod = "module github.com/gpuscale/gpuscale\n\ngo 1.26\n"
	info  = "package buildinfo\n\nvar version, commit string\n\nfunc Get() string { return version + \" \" + commit }\n"
	small = "package main\n\nimport (\n\t\"runtime\"\n\n\t\"github.com/gpuscale/gpuscale/internal/buildinfo\"\n)\n\nfunc main() {\n\t_, file, _, _ := runtime.Caller(0)\n\tprintln(buildinfo.Get(), file)\n}\n"
	cgo   = "package main\n\n// #include <stdlib.h>\nimport \"C\"\n\nfunc main() { println(C.abs(-3)) }\n"
)

func module(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": goMod, "internal/buildinfo/b.go": info, "x/main.go": source} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func build(t *testing.T, dir, arch, version string, p Program) (string, []byte) {
	t.Helper()
	out := filepath.Join(dir, "bin", p.Name)
	if err := Build(t.Context(), Options{Dir: dir, Program: p, Arch: arch, Version: version, Commit: "1a2b3c", Output: out}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return out, data
}

// Two folders, the same bytes, whatever the builder's environment says.
func TestSameBytesInTwoFolders(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		cgo    bool
	}{"static": {small, false}, "cgo": {cgo, true}} {
		t.Run(name, func(t *testing.T) {
			p := Program{"gpuscale-x", "./x", c.cgo}
			first, a := build(t, module(t, c.source), runtime.GOARCH, "0.1.0", p)
			t.Setenv("GOFLAGS", "-tags=other -gcflags=-N")
			t.Setenv("CGO_CFLAGS", "-O0 -g")
			t.Setenv("GOAMD64", "v3")
			dir := module(t, c.source)
			_, b := build(t, dir, runtime.GOARCH, "0.1.0", p)
			if !bytes.Equal(a, b) {
				t.Error("two builds of the same source differ")
			}
			if bytes.Contains(b, []byte(filepath.Dir(dir))) {
				t.Error("the binary knows the folder it was built in")
			}
			if err := CheckLinkage(first, c.cgo); err != nil {
				t.Error(err)
			}
			if c.cgo {
				if err := CheckLinkage(first, false); err == nil {
					t.Error("a binary with libraries passes for a static one")
				}
			}
		})
	}
}

func TestStamp(t *testing.T) {
	p := Program{"gpuscale-x", "./x", false}
	dir := module(t, small)
	file, a := build(t, dir, runtime.GOARCH, "0.1.0", p)
	out, err := exec.Command(file).CombinedOutput()
	if want := "0.1.0 1a2b3c github.com/gpuscale/gpuscale/x/main.go\n"; err != nil || string(out) != want {
		t.Errorf("it says %q (%v), want %q", out, err, want)
	}
	if _, b := build(t, dir, runtime.GOARCH, "0.2.0", p); bytes.Equal(a, b) {
		t.Error("two versions, the same binary")
	}
}

func TestEnvironment(t *testing.T) {
	o := Options{Program: Program{"gpuscale-x", "./x", true}, Arch: "arm64"}
	env, err := environment([]string{"PATH=/bin", "CC=clang", "CC_arm64=zig cc", "GOFLAGS=-mod=mod", "GOPROXY=off"}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PATH=/bin", "GOPROXY=off", "CC=zig cc", "CGO_ENABLED=1", "GOARCH=arm64"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %v", want, env)
		}
	}
	for _, not := range []string{"CC=clang", "GOFLAGS=-mod=mod"} {
		if slices.Contains(env, not) {
			t.Errorf("%s in %v", not, env)
		}
	}
	o.Program.Cgo = false
	if env, err = environment(nil, o); err != nil || !slices.Contains(env, "CGO_ENABLED=0") {
		t.Errorf("got %v, %v", env, err)
	}
}

func TestNoCompiler(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	_, err := environment(nil, Options{Program: Program{"gpuscale-x", "./x", true}, Arch: other})
	if err == nil || !strings.Contains(err.Error(), compilers[other]) || !strings.Contains(err.Error(), "CC_"+other) {
		t.Errorf("got %v", err)
	}
}

// A compiler is tried, not only found: one without a C library is no use.
func TestCheckCompiler(t *testing.T) {
	cc := filepath.Join(t.TempDir(), "cc")
	for name, c := range map[string]struct{ script, want string }{
		"a good one":      {"cat >/dev/null", ""},
		"with arguments":  {`[ "$1" = -target ]`, ""},
		"no library":      {"cat >/dev/null; echo 'stdlib.h: not there' >&2; echo more >&2; exit 1", "stdlib.h: not there (Debian: apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)"},
		"it is not there": {"", "cannot compile"},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(cc)
			if c.script != "" {
				if err := os.WriteFile(cc, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("CC_arm64", cc+" -target x")
			err := CheckCompiler(t.Context(), "arm64")
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "more")) {
				t.Errorf("want %q, got %v", c.want, err)
			}
		})
	}
	t.Setenv("CC_riscv64", "")
	if err := CheckCompiler(t.Context(), "riscv64"); err == nil || !strings.Contains(err.Error(), "CC_riscv64") {
		t.Errorf("an architecture of nobody's: %v", err)
	}
}

func TestNeeded(t *testing.T) {
	symbols := func(versions ...string) (s []elf.ImportedSymbol) {
		for i, v := range versions {
			s = append(s, elf.ImportedSymbol{Name: fmt.Sprint("f", i), Version: v})
		}
		return s
	}
	for _, c := range []struct {
		symbols []elf.ImportedSymbol
		want    Glibc
		which   string
	}{
		{nil, Glibc{}, ""},
		{symbols("", "GLIBC_PRIVATE", "CXXABI_1.3"), Glibc{}, ""},
		{symbols("GLIBC_2.9", "GLIBC_2.34", "GLIBC_2.2.5"), Glibc{2, 34}, "f1"},
		{symbols("GLIBC_2.38", "GLIBC_3.0"), Glibc{3, 0}, "f1"},
	} {
		if got, which := needed(c.symbols); got != c.want || which != c.which {
			t.Errorf("%v: got %v (%s), want %v (%s)", c.symbols, got, which, c.want, c.which)
		}
	}
	if !(Glibc{2, 38}).newer(NewestGlibc) || NewestGlibc.newer(NewestGlibc) {
		t.Error("2.38 is newer than 2.36, which is not newer than itself")
	}
}

func FuzzGlibc(f *testing.F) {
	f.Add("GLIBC_2.34")
	f.Add("GLIBC_2.2.5")
	f.Add("GLIBC_PRIVATE")
	f.Fuzz(func(t *testing.T, version string) {
		if g, ok := parseGlibc(version); ok && !strings.HasPrefix(version, "GLIBC_") {
			t.Errorf("%q is glibc %v", version, g)
		}
	})
}
