package cache

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
)

// tenants is a server that answers about the namespace in a parameter, and refuses any
// other query, as prom-label-proxy does.
type tenants struct {
	mu      sync.Mutex
	asked   []string
	refused []string
}

func (s *tenants) QueryWithin(_ context.Context, query string, _ time.Time, most prom.Limits) (prom.Vector, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace := most.Parameters["namespace"]
	if namespace == "" || strings.Contains(query, "=~") {
		s.refused = append(s.refused, query)
		return nil, fmt.Errorf("%w: HTTP 400: the namespace query parameter must be provided", prom.ErrBadQuery)
	}
	s.asked = append(s.asked, namespace)
	return nil, nil
}

// TestANamespaceParameter: each query is about one namespace and says which, that of
// the control and of the recent past too.
func TestANamespaceParameter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &tenants{}
		rule := signal.Rule{Name: "queue", Subject: signal.Namespace, Sources: []signal.Source{{Metric: "queue"}}, Maximum: 1, MaxAge: time.Minute, Duplicates: signal.Max, PerPod: signal.Sum, PerWorkload: signal.Sum}
		c, err := New(Setup{
			Options:  Options{Interval: time.Second, IdleAfter: time.Minute, FirstWait: time.Second, Concurrency: 4},
			Backends: []Backend{{Name: DefaultBackend, Querier: server, NamespaceParameter: "namespace"}}, Rules: []Rule{{Rule: rule}},
		}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		synctest.Wait()
		for _, namespace := range []string{"bank", "shop"} {
			if view, err := c.View(ctx, "queue", namespace); err != nil || view.Failure != nil {
				t.Errorf("%s: %v, %v", namespace, err, view.Failure)
			}
		}
		time.Sleep(3 * time.Second) // of the bubble's clock
		synctest.Wait()
		stop()
		running.Wait()
		if len(server.refused) > 0 {
			t.Errorf("queries about several namespaces, or about none: %q", server.refused)
		}
		slices.Sort(server.asked)
		if got := slices.Compact(slices.Clone(server.asked)); !slices.Equal(got, []string{"bank", "shop"}) || len(server.asked) < 6 {
			t.Errorf("asked about %q", server.asked)
		}
	})
}
