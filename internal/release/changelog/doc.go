// Package changelog reads CHANGELOG.md: the notes of a release are the section
// that people wrote for it, and a release without one is not made.
package changelog
