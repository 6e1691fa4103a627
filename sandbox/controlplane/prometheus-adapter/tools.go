//go:build tools

// Package prometheusadapter pins the version of prometheus-adapter that tests compare with our adapter. It
// contains no code.
package prometheusadapter

import _ "sigs.k8s.io/prometheus-adapter/cmd/adapter"
