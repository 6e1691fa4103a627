// Package buildinfo says which version of gpuscale this binary is.
package buildinfo

import "runtime/debug"

// version is set by the linker (-X) for releases.
var version string

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
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			revision = "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return "devel" + revision + dirty
}
