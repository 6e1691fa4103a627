// Package view draws what happens in a sandbox: a live line that is redrawn in place, a line for each
// decision, and the summary. The live line is wrapped on a narrow terminal; without a terminal it is printed
// at intervals. The package only draws: callers supply every number, and an unknown number is "n/a".
package view
