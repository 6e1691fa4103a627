// Package e2e holds the sandbox's stories and plays them, as tests, against
// the real control plane. It owns testdata/*.txt; the demo is the first of
// them. It never replaces a unit test: a story shows that the parts meet.
package e2e
