// Package fleet turns reconciles into the series that boards, alerts and the capacity
// report read: states of GPUs, GPU time by use, quotas, pending demand, latencies of
// pods and nodes, failures. An unknown value has no series.
//
// Only the leader exports these series, so that sums over replicas are correct. Their
// number is bounded: rows of the ledger, shapes, tenants and HPAs beyond the bound are
// summed under "(other)", or left out where a sum has no meaning. Nothing is kept over
// a restart: counters restart at zero, which Prometheus' rate() handles.
package fleet
