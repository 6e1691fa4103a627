package kube

import (
	"log/slog"
	"sync"

	"k8s.io/klog/v2"
)

// UseLogger redirects client-go's klog to log. klog's logger is a global that must
// not change while it is used: only the first call in a process has an effect.
func UseLogger(log *slog.Logger) {
	once.Do(func() { klog.SetSlogLogger(log.With("from", "client-go")) })
}

var once sync.Once
