// Package gpuscale is the Helm chart. Programs that show boards read its boards.
package gpuscale

import (
	"embed"
	"io/fs"
)

//go:embed files/dashboards/*.json
var files embed.FS

// Boards returns the files of the Grafana boards by name.
func Boards() fs.FS {
	boards, err := fs.Sub(files, "files/dashboards")
	if err != nil {
		panic(err) // the path is a constant
	}
	return boards
}
