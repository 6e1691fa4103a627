package image

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"strings"
)

// Program returns an image that runs the file as /program. For a dynamically linked file the image also
// contains this machine's loader and libraries.
func Program(name, file string) (Image, error) {
	i := Image{Name: name, Files: map[string]string{"/program": file}, Entrypoint: []string{"/program"}}
	libraries, err := Libraries(file)
	if err != nil {
		return i, fmt.Errorf("making image %s: %w", name, err)
	}
	for _, l := range libraries {
		i.Files[l] = l
	}
	return i, nil
}

// Libraries returns the paths of the loader and libraries of this machine that a program is linked with; none
// for a static program.
func Libraries(file string) ([]string, error) {
	program, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	if program.Section(".interp") == nil {
		return nil, nil
	}
	out, err := exec.Command("ldd", file).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", file, err)
	}
	var all []string
	for line := range strings.Lines(string(out)) {
		// Lines are NAME => PATH (ADDRESS), PATH (ADDRESS) for the loader, and NAME (ADDRESS) for the kernel's library.
		name, path, found := strings.Cut(strings.TrimSpace(line), " => ")
		if !found {
			path = name
		}
		path, _, _ = strings.Cut(path, " (")
		switch {
		case path == "not found":
			return nil, fmt.Errorf("%s needs %s, which is not there", file, name)
		case strings.HasPrefix(path, "/"):
			all = append(all, path)
		}
	}
	return all, nil
}
