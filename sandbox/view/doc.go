// Package view draws what happens in a sandbox: one live line, folded where the
// terminal is narrow, that is painted again in place (and printed now and then
// where there is no terminal), one line for each decision, and the summary. It owns only the drawing: every number
// is given to it, and one that is not known is "n/a".
package view
