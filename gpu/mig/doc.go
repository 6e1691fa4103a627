// Package mig is a model of Multi-Instance GPU: the profiles of a product, their
// possible placements, the legal layouts, and the ordered steps from one layout to
// another. A table that a node has read from its GPUs and published takes
// precedence over the package's own. Keys are slices, never profile names, since
// names follow the driver's rounding. It never accesses hardware.
package mig
