// Package ledger accounts for every GPU-hour of a window, from the autoscaler's counters
// where they exist, else from the exporter's series. Each moment of each GPU has exactly
// one place, so the places add up to the capacity; time without a sample is unknown and
// never free. The package is pure: no I/O, no clock.
package ledger
