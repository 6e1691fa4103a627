// Package model makes the capacity report: from what Prometheus has said, and
// prices, and the report before, to figures with their reasons. It is pure: the
// same input gives the same report to the last byte. It never writes anything and
// never turns a missing value into a number.
package model
