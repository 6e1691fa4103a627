package main

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// scope registers collectors until end. The registry belongs to the process,
// which may serve again after an error.
type scope struct {
	prometheus.Registerer
	mu  sync.Mutex
	all []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (s *scope) Register(c prometheus.Collector) error {
	if err := s.Registerer.Register(c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, c)
	return nil
}

// end unregisters everything registered through the scope.
func (s *scope) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.all {
		s.Unregister(c)
	}
	s.all = nil
}
