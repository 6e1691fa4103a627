// Package mig is Multi-Instance GPU, exactly: which profiles a product has,
// where their instances may lie, which layouts are legal, and the ordered
// steps from one layout to another. A table that a node has read from its cards and
// published goes before the package's own. Everything is keyed on slices, never on
// profile names, since names follow the driver's rounding. It never touches
// hardware.
package mig
