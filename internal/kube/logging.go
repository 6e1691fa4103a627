package kube

import (
	"log/slog"
	"sync"

	"k8s.io/klog/v2"
)

// UseLogger sends what client-go logs through klog to log. klog is a global of
// its own, which cannot be changed while somebody logs: the first call in a
// process holds, later ones change nothing.
func UseLogger(log *slog.Logger) {
	once.Do(func() { klog.SetSlogLogger(log.With("from", "client-go")) })
}

var once sync.Once
