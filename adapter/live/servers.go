package live

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// servers are the clients in use, by backend name.
type servers struct {
	mu   sync.Mutex
	open map[string]*server
}

// made returns a client for each configured backend. An unchanged backend keeps
// its client and connections.
func (s *servers) made(configured map[string]prom.Config) map[string]*server {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[string]*server{}
	for name, cfg := range configured {
		if old := s.open[name]; old != nil && reflect.DeepEqual(old.cfg, cfg) {
			next[name] = old
			continue
		}
		next[name] = &server{cfg: cfg}
	}
	return next
}

// use replaces the clients. The map must not change afterwards.
func (s *servers) use(open map[string]*server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
}

func (s *servers) now() map[string]*server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func backends(open map[string]*server) []cache.Backend {
	var all []cache.Backend
	for _, name := range slices.Sorted(maps.Keys(open)) {
		all = append(all, cache.Backend{Name: name, Querier: open[name], Version: version(open[name].cfg)})
	}
	return all
}

// version changes with the fields that decide which data a server returns. It
// is a hash, since a tenant's name may be a secret.
func version(cfg prom.Config) string {
	raw, err := json.Marshal([]any{cfg.URL, cfg.Headers, cfg.HeaderFiles, cfg.Parameters, cfg.Username})
	if err != nil { // strings and maps of strings always marshal
		return cfg.URL
	}
	s := sha256.Sum256(raw)
	return hex.EncodeToString(s[:])
}

// server makes its client when it is first used: a missing credential file
// breaks the rules of this backend only, and only until the file exists.
type server struct {
	cfg prom.Config

	mu     sync.Mutex
	client *prom.Client
}

// Query implements cache.Querier.
func (s *server) Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error) {
	c, err := s.ready()
	if err != nil {
		return nil, err
	}
	return c.Query(ctx, promql, at)
}

// Each implements cache.Streamer.
func (s *server) Each(ctx context.Context, promql string, at time.Time, lock sync.Locker, take func(labels [][2][]byte, value float64, at time.Time)) error {
	c, err := s.ready()
	if err != nil {
		return err
	}
	return c.Each(ctx, promql, at, lock, take)
}

func (s *server) ready() (*prom.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	c, err := prom.New(s.cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", prom.ErrUnavailable, err)
	}
	s.client = c
	return c, nil
}

// Backend returns the server that has that name at the time of each call.
func (c *Configuration) Backend(name string) *Backend {
	if name == "" {
		name = cache.DefaultBackend
	}
	return &Backend{name: name, servers: &c.servers}
}

// Backend is a server by name.
type Backend struct {
	name    string
	servers *servers
}

// Client returns the current client.
func (b *Backend) Client() (*prom.Client, error) {
	b.servers.mu.Lock()
	s := b.servers.open[b.name]
	b.servers.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("%w: no backend is called %q", prom.ErrUnavailable, b.name)
	}
	return s.ready()
}

// Series lists series, for discovery; see [prom.Client.Series].
func (b *Backend) Series(ctx context.Context, selector string, since time.Time) ([]prom.Family, error) {
	c, err := b.Client()
	if err != nil {
		return nil, err
	}
	return c.Series(ctx, selector, since)
}
