package testenv

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// Shared is an environment that is started when the first test asks for it.
type Shared[T interface{ Stop() }] struct {
	start func(context.Context) (T, error)
	once  sync.Once
	env   T
	err   error
	up    bool
}

// NewShared returns one that start makes.
func NewShared[T interface{ Stop() }](start func(context.Context) (T, error)) *Shared[T] {
	return &Shared[T]{start: start}
}

// Get returns the environment, and skips the test under -short.
func (s *Shared[T]) Get(t testing.TB) T {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real control plane, which takes minutes to compile the first time")
	}
	// Not the test's context: the environment outlives it.
	env, err := s.Env(context.Background())
	require.NoError(t, err)
	return env
}

// Env is Get outside of a test, for an environment that stands on another one.
func (s *Shared[T]) Env(ctx context.Context) (T, error) {
	s.once.Do(func() {
		s.env, s.err = s.start(ctx)
		s.up = s.err == nil
	})
	return s.env, s.err
}

// Stop ends the environment if a test has asked for it.
func (s *Shared[T]) Stop() {
	if s.up {
		s.env.Stop()
	}
}

// Main is a package's TestMain: it runs the tests, stops the environment, and exits.
func (s *Shared[T]) Main(m *testing.M) {
	code := m.Run()
	s.Stop()
	os.Exit(code)
}
