// Package scenario is the text language for snapshots and plans: it parses
// them, prints them, and runs a file of them in the simulated world. What it
// prints of a snapshot parses back to an equal one, so a bug report is a test.
// It never decides anything and imports no test library.
//
// docs/internals/scenarios.md has the language.
package scenario
