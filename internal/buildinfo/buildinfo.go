package buildinfo

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// Set by the linker (-X). Builds use -trimpath and -buildvcs=false, so that two
// folders give the same binary, and nothing else records them.
var (
	version string
	commit  string
)

// Unknown is the value of fields that were not recorded.
const Unknown = "unknown"

// Info is what `version` prints. The names are those of its JSON.
type Info struct {
	Program  string `json:"program"`
	Version  string `json:"version"`
	Commit   string `json:"commit"` // "unknown" where neither linker nor toolchain recorded it
	Go       string `json:"goVersion"`
	Platform string `json:"platform"` // "linux/amd64"
}

// Get describes this binary under the given program name.
func Get(program string) Info {
	return Info{
		Program: program, Version: Version(), Commit: Commit(),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// Version returns the release, or what the Go toolchain recorded about the
// source ("devel+1a2b3c4d5e6f", with "-dirty" where it was changed).
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return develVersion(info.Settings)
}

// Commit returns the full hash of the source's commit, or Unknown.
func Commit() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if revision, _ := source(info.Settings); revision != "" {
			return revision
		}
	}
	return Unknown
}

func develVersion(settings []debug.BuildSetting) string {
	v := "devel"
	revision, dirty := source(settings)
	if len(revision) >= 12 {
		v += "+" + revision[:12]
	}
	if dirty {
		v += "-dirty"
	}
	return v
}

func source(settings []debug.BuildSetting) (revision string, dirty bool) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	return revision, dirty
}

// CheckFormat returns an error if Write does not have a format.
func CheckFormat(format string) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("%q: want text or json", format)
	}
	return nil
}

// Write prints i as "text" or "json"; another format is an error that names both.
func (i Info) Write(w io.Writer, format string) error {
	switch format {
	case "text":
		_, err := fmt.Fprintf(w, "%s %s\n  commit    %s\n  go        %s\n  platform  %s\n", i.Program, i.Version, i.Commit, i.Go, i.Platform)
		return err
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(i)
	default:
		return CheckFormat(format)
	}
}
