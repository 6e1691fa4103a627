// Package replay is a Source over recorded readings: for fleets without GPUs,
// for tests, and for analysing incidents. It owns the recording's text format,
// which Parse documents. It never touches a driver.
package replay
