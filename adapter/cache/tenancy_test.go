package cache

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
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
		s := setup(server, only("queue_depth"))
		s.Backends[0].NamespaceParameter = "namespace"
		c, _ := start(t, s)
		for _, namespace := range []string{"bank", "shop"} {
			if view, err := c.View(t.Context(), "queue_depth", namespace); err != nil || view.Failure != nil {
				t.Errorf("%s: %v, %v", namespace, err, view.Failure)
			}
		}
		time.Sleep(3 * options.Interval) // of the bubble's clock
		synctest.Wait()
		server.mu.Lock()
		defer server.mu.Unlock()
		if len(server.refused) > 0 {
			t.Errorf("queries about several namespaces, or about none: %q", server.refused)
		}
		slices.Sort(server.asked)
		if got := slices.Compact(slices.Clone(server.asked)); !slices.Equal(got, []string{"bank", "shop"}) || len(server.asked) < 6 {
			t.Errorf("asked about %q", server.asked)
		}
	})
}
