//go:build tools

// Package prometheus pins the Prometheus and the promtool that the sandbox
// and the tests build. It has no code of its own; see the build tags in
// sandbox/build for the service discoveries that are left out.
package prometheus

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
