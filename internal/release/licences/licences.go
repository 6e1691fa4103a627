package licences

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// texts are the names of files that say what may be done with a module.
var texts = regexp.MustCompile(`(?i)^(licen[cs]e|notice|copying|patents|unlicense)([-._].*)?$`)

// Collect returns one text: every module of the binary with its files, in the
// order of their names, Go itself first. A module without any is an error.
// dir is the main module's folder.
func Collect(ctx context.Context, dir string, info *debug.BuildInfo) ([]byte, error) {
	folders, err := locate(ctx, dir, info.Deps)
	if err != nil {
		return nil, err
	}
	goroot, err := goCommand(ctx, dir, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := write(&out, "Go "+info.GoVersion, strings.TrimSpace(goroot)); err != nil {
		return nil, err
	}
	deps := slices.Clone(info.Deps)
	slices.SortFunc(deps, func(a, b *debug.Module) int { return strings.Compare(a.Path, b.Path) })
	for _, m := range deps {
		if err := write(&out, actual(m).Path+" "+actual(m).Version, folders[m.Path]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

func actual(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// locate asks go where the modules lie; a replaced one's folder is its
// replacement's.
func locate(ctx context.Context, dir string, deps []*debug.Module) (map[string]string, error) {
	if len(deps) == 0 {
		return nil, nil
	}
	args := []string{"list", "-m", "-f", "{{.Path}}\t{{.Dir}}"}
	for _, m := range deps {
		args = append(args, m.Path)
	}
	out, err := goCommand(ctx, dir, args...)
	if err != nil {
		return nil, err
	}
	folders := map[string]string{}
	for _, line := range strings.Split(out, "\n") {
		if path, folder, ok := strings.Cut(line, "\t"); ok {
			folders[path] = folder
		}
	}
	return folders, nil
}

func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, stderr.String())
	}
	return string(out), nil
}

func write(out *bytes.Buffer, title, folder string) error {
	if folder == "" {
		return fmt.Errorf("licence of %s: it is not downloaded", title)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("licence of %s: %w", title, err)
	}
	found := false
	for _, e := range entries { // sorted by name
		if e.IsDir() || !texts.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return fmt.Errorf("licence of %s: %w", title, err)
		}
		rule := strings.Repeat("=", 80)
		fmt.Fprintf(out, "%s\n%s: %s\n%s\n\n%s\n\n", rule, title, e.Name(), rule, bytes.TrimSpace(data))
		found = true
	}
	if !found {
		return fmt.Errorf("licence of %s: no file LICENSE, NOTICE or COPYING in it", title)
	}
	return nil
}
