package e2e

import _ "embed"

//go:embed testdata/demo.yaml
var demo string

// Demo is the story that the demo plays, and the name for messages about it.
func Demo() (name, text string) { return "demo.yaml", demo }
