package live

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/config"
)

// Every is how often the file is read. Its contents are compared, not its
// modification time: kubelet swaps a ConfigMap by a link two directories up.
const Every = 2 * time.Second

// Force is the configuration in force. It is immutable.
type Force struct {
	File  *config.File
	Rules []Rule
	// Hash of the contents in force.
	Hash string
	// Since is when they came into force.
	Since time.Time
	// Failure of the current file, if it could not be used.
	Failure error
}

// Configuration is the file and the version of it in force. Its methods are
// safe for concurrent use.
type Configuration struct {
	file     string
	overlays []func(*config.Config)
	log      *slog.Logger
	servers  servers

	mu    sync.Mutex
	force Force
	seen  string // hash of the contents read last, or the error of reading
	bad   int    // reloads that failed
}

// Open reads the file for the first time. The error is about the file as a
// whole: a bad rule is logged, and the others are used.
func Open(file string, overlays []func(*config.Config), reg prometheus.Registerer, log *slog.Logger) (*Configuration, error) {
	c := &Configuration{file: file, overlays: overlays, log: log, servers: servers{open: map[string]*server{}}}
	if file == "" {
		return nil, errors.New("--config is required")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading configuration: %w", err)
	}
	c.seen = sum(raw)
	next, err := c.read(raw)
	if err != nil {
		return nil, err
	}
	c.put(next, c.servers.made(next.File.Config.Servers()))
	if err := reg.Register(newStates(c)); err != nil {
		return nil, fmt.Errorf("registering configuration metrics: %w", err)
	}
	return c, nil
}

// Force returns what is in force.
func (c *Configuration) Force() Force {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.force
}

// Setup returns the cache's part of what is in force.
func (c *Configuration) Setup() cache.Setup { return setup(c.Force(), c.servers.now()) }

func setup(f Force, open map[string]*server) cache.Setup {
	s := cache.Setup{Options: f.File.Config.Cache(), Backends: backends(open)}
	for _, r := range f.Rules {
		if r.InUse != nil {
			s.Rules = append(s.Rules, *r.InUse)
		}
	}
	return s
}

// Run reads the file every few seconds until ctx ends, and applies each new
// setup.
func (c *Configuration) Run(ctx context.Context, apply func(cache.Setup) error) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.look(apply)
		}
	}
}

// look applies the file if its contents are new. Contents that cannot be used
// are tried once and logged once.
func (c *Configuration) look(apply func(cache.Setup) error) {
	raw, err := os.ReadFile(c.file)
	now := sum(raw)
	if err != nil {
		now = err.Error()
		err = fmt.Errorf("reading configuration: %w", err)
	}
	if now == c.seen {
		return
	}
	c.seen = now
	if err == nil && now == c.Force().Hash {
		c.failed(nil) // back to what is in force
		return
	}
	var next Force
	if err == nil {
		next, err = c.read(raw)
	}
	if err == nil {
		open := c.servers.made(next.File.Config.Servers())
		if err = apply(setup(next, open)); err == nil {
			c.put(next, open)
			return
		}
	}
	c.failed(err)
	if err != nil {
		c.log.Error("configuration cannot be used, the previous one stays in force", slog.String("file", c.file), slog.Any("error", err))
	}
}

func (c *Configuration) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.force.Failure = err
	if err != nil {
		c.bad++
	}
}

// read returns the Force of new contents.
func (c *Configuration) read(raw []byte) (Force, error) {
	f, err := config.Read(c.file, raw, c.overlays...)
	if err != nil {
		return Force{}, err
	}
	known := map[string]bool{}
	for name := range f.Config.Servers() {
		known[name] = true
	}
	next := Force{File: f, Rules: merge(c.Force().Rules, f.Rules, known), Hash: sum(raw), Since: time.Now()}
	for i, r := range next.Rules {
		if r.State == Kept {
			trusted := f.Trust(*r.InUse)
			next.Rules[i].InUse = &trusted
		}
	}
	return next, nil
}

// put sets what is in force.
func (c *Configuration) put(next Force, open map[string]*server) {
	c.servers.use(open)
	c.mu.Lock()
	before := c.force.File
	c.force = next
	c.mu.Unlock()
	c.log.Info("configuration in force", slog.String("file", c.file), slog.String("hash", next.Hash), slog.Int("rules", len(next.Rules)))
	if before != nil && !same(before.Config, next.File.Config) {
		c.log.Warn("changes of forward and prometheusAdapter take effect after a restart", slog.String("file", c.file))
	}
	for _, r := range next.Rules {
		if r.State != InForce {
			c.log.Error("rule cannot be used", slog.String("rule", r.Name), slog.String("state", string(r.State)), slog.Any("problems", r.Problems))
		}
	}
}

// same compares the fields that are read at the start only.
func same(a, b config.Config) bool {
	return reflect.DeepEqual(a.Forward, b.Forward) && reflect.DeepEqual(a.PrometheusAdapter, b.PrometheusAdapter)
}

func sum(raw []byte) string {
	s := sha256.Sum256(raw)
	return hex.EncodeToString(s[:8])
}
