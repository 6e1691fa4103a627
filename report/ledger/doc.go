// Package ledger accounts for every GPU-hour of a window, from the autoscaler's counters where they exist,
// else from the exporter's series. At each moment a GPU is in exactly one place (busy, idle, free, …), so the
// places add up to the capacity. Time without a sample is unknown, never free. The package is pure: no I/O,
// no clock.
package ledger
