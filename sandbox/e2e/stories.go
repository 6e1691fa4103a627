package e2e

import _ "embed"

//go:embed testdata/demo.txt
var demo string

// Demo is the story that the demo plays, and the name for messages about it.
func Demo() (name, text string) { return "demo.txt", demo }
