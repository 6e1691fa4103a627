package chart

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestNeighbourThanos: everything that reads Prometheus works with a Thanos querier over two replicas of
// Prometheus, and over one of them while the other is down. If all stores are down, the querier answers with
// success and no series: the HPA then gets no value and keeps its replicas.
func TestNeighbourThanos(t *testing.T) {
	x, b := begin(t)
	thanos := b.neighbour(t, build.Thanos, "thanos")
	x.scraping(func(s *scraping) { s.replica = "a" })
	other := b.scrape
	other.replica = "b"
	file, second := filepath.Join(b.Cluster.PrometheusDir(), "replica.yml"), testenv.FreeAddress(t)
	x.must(os.WriteFile(file, other.config(), 0o600))
	b.beside(t, proc.Spec{Name: "prometheus-b", Path: b.Binaries.Prometheus, Dir: b.Cluster.PrometheusDir(), Args: []string{
		"--config.file=" + file, "--storage.tsdb.path=" + t.TempDir(), "--web.listen-address=" + second,
	}})
	query := []string{"query", "--query.replica-label=replica"}
	var sidecars []*proc.Process
	for i, url := range []string{b.Cluster.PrometheusURL(), "http://" + second} {
		at := testenv.FreeAddress(t)
		sidecars = append(sidecars, b.beside(t, proc.Spec{Name: fmt.Sprintf("thanos-sidecar-%d", i), Path: thanos, Args: []string{
			"sidecar", "--prometheus.url=" + url, "--tsdb.path=" + t.TempDir(), "--grpc-address=" + at, "--http-address=" + testenv.FreeAddress(t),
		}}))
		query = append(query, "--endpoint="+at)
	}
	url := "http://" + testenv.FreeAddress(t)
	b.beside(t, proc.Spec{Name: "thanos-query", Path: thanos, Args: append(query, "--http-address="+strings.TrimPrefix(url, "http://"), "--grpc-address="+testenv.FreeAddress(t))})
	x.wait("the querier has both stores", func() error {
		var stores struct {
			Data struct{ Sidecar []struct{ LastError *string } }
		}
		resp, err := http.Get(url + "/api/v1/stores")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&stores); err != nil {
			return err
		}
		ready := 0
		for _, s := range stores.Data.Sidecar {
			if s.LastError == nil {
				ready++
			}
		}
		if ready < len(sidecars) {
			return errNotYet
		}
		return nil
	})
	b.over(t, source{url: url})
	b.allWell(t)

	// Until the querier gives up the store, its answers are partial, and the adapter rejects them.
	sidecars[0].Stop(5 * time.Second)
	x.wait("a partial answer", func() error {
		for _, of := range b.queries(t) {
			if of.failed > 0 {
				return nil
			}
		}
		return errNotYet
	})
	b.nearlyWell(t)

	hpa := func() (h autoscalingv2.HorizontalPodAutoscaler) {
		x.must(b.Admin.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "embed"}, &h))
		return h
	}
	before := hpa().Status.DesiredReplicas
	sidecars[1].Stop(5 * time.Second)
	x.wait("the HPA has no answer", func() error {
		if b.following(t.Context()) == nil {
			return errNotYet
		}
		return nil
	})
	if now := hpa().Status.DesiredReplicas; now != before {
		t.Errorf("the HPA has %d replicas without any store, %d before", now, before)
	}
}
