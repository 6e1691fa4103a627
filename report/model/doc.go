// Package model computes the capacity report from Prometheus' answers and the prices. It
// is pure: equal input gives a byte-identical report. A missing value never becomes a number; it stays
// unknown, with a reason.
package model
