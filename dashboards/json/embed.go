// Package json holds the boards' JSON as it is committed, for programs that show
// boards. Grafana reads the same files.
package json

import (
	"embed"
	"io/fs"
)

//go:embed *.json
var files embed.FS

// Files returns the boards' files by name.
func Files() fs.FS { return files }
