// Package view draws what happens in a sandbox: one live line that is painted
// again in place on a terminal (and printed now and then elsewhere), one line
// for each decision, and the summary. It owns only the drawing: every number
// is given to it, and one that is not known is "n/a".
package view
