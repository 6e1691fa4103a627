package build

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// goNeeded is the oldest Go that compiles everything.
const goNeeded = "go 1.26 or newer"

var goVersion = regexp.MustCompile(`go(\d+)\.(\d+)`)

// CheckTools returns one error that lists everything the machine lacks; nil when
// all is there.
func CheckTools() error {
	var missing, packages []string
	if _, err := exec.LookPath("go"); err != nil {
		missing = append(missing, goNeeded+": not found; a distribution's own is often too old, take one from go.dev/dl and put its bin folder on PATH")
	} else if out, err := exec.Command("go", "env", "GOVERSION").Output(); err == nil && !goIsNew(string(out)) {
		missing = append(missing, fmt.Sprintf("%s: this one is %s; take one from go.dev/dl", goNeeded, strings.TrimSpace(string(out))))
	}
	for _, tool := range []struct{ name, why, pkg string }{
		{"gcc", "the exporter links NVIDIA's C library", "gcc libc6-dev"},
		{"make", "runs the targets of the Makefile", "make"},
		{"git", "Go may fetch modules with it", "git"},
	} {
		if _, err := exec.LookPath(tool.name); err != nil {
			missing = append(missing, tool.name+": "+tool.why)
			packages = append(packages, tool.pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	text := "this machine lacks:\n  " + strings.Join(missing, "\n  ")
	if len(packages) > 0 {
		text += "\non Debian and Ubuntu: sudo apt-get install -y " + strings.Join(packages, " ")
	}
	return errors.New(text)
}

func goIsNew(version string) bool {
	m := goVersion.FindStringSubmatch(version)
	if m == nil {
		return true // a development version
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major > 1 || major == 1 && minor >= 26
}
