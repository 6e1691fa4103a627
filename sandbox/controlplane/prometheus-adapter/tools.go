//go:build tools

// Package prometheusadapter pins the prometheus-adapter that tests run beside
// our adapter, on the same questions. It has no code of its own.
package prometheusadapter

import _ "sigs.k8s.io/prometheus-adapter/cmd/adapter"
