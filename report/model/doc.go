// Package model computes the capacity report from Prometheus' answers, prices and the
// report before. It is pure: equal input gives the same report to the last byte. A
// missing value never becomes a number; it stays unknown, with a reason.
package model
