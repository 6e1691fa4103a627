// Package apidouble is a double of an API server that can be read and not written to:
// lists in pages, single objects, refusals. It knows what doctor asks for, and is for
// tests.
package apidouble
