// Package fakeapi is a fake API server for tests: read-only, with pages, single objects
// and refusals.
package fakeapi
