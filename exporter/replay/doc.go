// Package replay plays recorded readings as if a card gave them: for fleets
// without GPUs, for tests, and for looking at an incident again. It owns the
// recording's text format, which Parse documents. It never touches a driver.
package replay
