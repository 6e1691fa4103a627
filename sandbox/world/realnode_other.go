//go:build !linux

package world

import (
	"context"
	"errors"
)

// CheckRealNode returns what this machine lacks for a real node.
func CheckRealNode() error { return errors.New("a real node needs Linux") }

func (w *World) joinRealNode(_, _ context.Context) error { return nil }
