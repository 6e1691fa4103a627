package gobuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// compilers are Debian's names for the C compilers of the platforms.
var compilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// CheckCompiler has the C compiler for an architecture read a header, and returns an
// error that says what brings one. Without a compiler, or without the architecture's
// C library beside it, a release would end after minutes, in the compiler's own words.
func CheckCompiler(ctx context.Context, arch string) error {
	cc := os.Getenv("CC_" + arch)
	if cc == "" {
		var err error
		if cc, err = compiler(arch); err != nil {
			return err
		}
	}
	words := strings.Fields(cc) // "zig cc -target …"
	if len(words) == 0 {
		return fmt.Errorf("CC_%s names nothing", arch)
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], "-fsyntax-only", "-x", "c", "-")...)
	cmd.Stdin = strings.NewReader("#include <stdlib.h>\n#include <dlfcn.h>\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s cannot compile: %w: %s%s", cc, err, first(string(out)), brings(arch))
	}
	return nil
}

// first line of what a compiler says: the rest follows from it.
func first(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

func compiler(arch string) (string, error) {
	name, known := compilers[arch]
	if !known {
		return "", fmt.Errorf("no C compiler is known for %s: name one in CC_%s", arch, arch)
	}
	if _, err := exec.LookPath(name); err == nil {
		return name, nil
	}
	if arch == runtime.GOARCH {
		return "gcc", nil
	}
	return "", fmt.Errorf("it needs %s%s", name, brings(arch))
}

// brings says where a compiler comes from.
func brings(arch string) string {
	name, known := compilers[arch]
	if !known {
		return fmt.Sprintf(" (name one in CC_%s)", arch)
	}
	return fmt.Sprintf(" (Debian: apt-get install gcc-%s libc6-dev-%s-cross), or another named in CC_%s", strings.TrimSuffix(name, "-gcc"), arch, arch)
}
