// Package vocabulary keeps private words out of identifiers, help texts, logs,
// events, errors and docs. The table of CONTRIBUTING.md names the words and
// what stands in their place; the test of this package enforces those that a
// program can tell from other uses. It holds no code.
package vocabulary
