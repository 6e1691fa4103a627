package e2e

import _ "embed"

//go:embed testdata/demo.yaml
var demo string

// Demo returns the story of the demo, and its name for messages.
func Demo() (name, text string) { return "demo.yaml", demo }
