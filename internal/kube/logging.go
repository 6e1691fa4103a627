package kube

import (
	"log/slog"

	"k8s.io/klog/v2"
)

// UseLogger sends what client-go logs through klog to log. klog is a global of
// its own, so this is called once, from main.
func UseLogger(log *slog.Logger) {
	klog.SetSlogLogger(log.With("from", "client-go"))
}
