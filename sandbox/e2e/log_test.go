package e2e

import (
	"log/slog"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/internal/kube"
)

// useLogger sends what the libraries log to log. Without it controller-runtime
// complains with a stack trace.
func useLogger(log *slog.Logger) {
	kube.UseLogger(log)
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
}
