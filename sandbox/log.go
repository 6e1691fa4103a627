package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/internal/kube"
)

// openLog sends the sandbox's log, and its libraries' logs, to a file, so that they do not disturb the view.
func openLog(file string) (*slog.Logger, func(), error) {
	if file == "" {
		return logTo(slog.DiscardHandler), func() {}, nil
	}
	out, err := os.Create(filepath.Clean(file))
	if err != nil {
		return nil, nil, fmt.Errorf("--log: %w", err)
	}
	return logTo(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})), func() { _ = out.Close() }, nil
}

func logTo(h slog.Handler) *slog.Logger {
	log := slog.New(h)
	kube.UseLogger(log)
	ctrllog.SetLogger(logr.FromSlogHandler(h))
	return log
}
