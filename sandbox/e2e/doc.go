// Package e2e contains the sandbox's stories and plays them as tests on the real control plane. It owns
// testdata; the demo is one of the stories. It replaces no unit test: a story shows that the parts work
// together.
package e2e
