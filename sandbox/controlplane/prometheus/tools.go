//go:build tools

// Package prometheus pins the versions of Prometheus and promtool that the sandbox and the tests build. It
// contains no code. The build tags in sandbox/build leave out most service discoveries.
package prometheus

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
