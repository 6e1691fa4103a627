// Package ledger says where every GPU-hour of a window went, from what Prometheus
// has recorded: from the autoscaler's counters where they are, from the exporter's
// series where there is no autoscaler. Each moment of each card has exactly one
// place, so that the places add up to the capacity; what nobody saw is unknown and
// never free. It is pure: no I/O, no clock.
package ledger
