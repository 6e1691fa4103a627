// Package replay is a Source over recorded readings: for fleets without GPUs
// and for tests. It owns the recording's YAML format. It never touches a driver.
package replay
