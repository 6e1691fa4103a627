package testenv

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// Shared is an environment that starts when the first test asks for it.
type Shared[T interface{ Stop() }] struct {
	start func(context.Context) (T, error)
	once  sync.Once
	env   T
	err   error
	up    bool
}

// NewShared returns a Shared whose environment start creates.
func NewShared[T interface{ Stop() }](start func(context.Context) (T, error)) *Shared[T] {
	return &Shared[T]{start: start}
}

// Get returns the environment. It skips the test under -short.
func (s *Shared[T]) Get(t testing.TB) T {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real control plane, which takes minutes to compile the first time")
	}
	// The context is not the test's, since the environment outlives the test.
	env, err := s.Env(context.Background())
	require.NoError(t, err)
	return env
}

// Env is Get for use outside of a test, for an environment that builds on another one.
func (s *Shared[T]) Env(ctx context.Context) (T, error) {
	s.once.Do(func() {
		s.env, s.err = s.start(ctx)
		s.up = s.err == nil
	})
	return s.env, s.err
}

// Stop stops the environment if a test has used it.
func (s *Shared[T]) Stop() {
	if s.up {
		s.env.Stop()
	}
}

// Main is a package's TestMain: it runs the tests, stops the environment and exits.
func (s *Shared[T]) Main(m *testing.M) {
	code := m.Run()
	s.Stop()
	os.Exit(code)
}
