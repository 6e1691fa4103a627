package guardrails

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// foreignCRDs are the real CRDs, from their projects' modules.
var foreignCRDs = []neighbours.Source{
	{Neighbour: build.Kueue, Files: []string{
		"config/components/crd/bases/kueue.x-k8s.io_workloads.yaml", "config/components/crd/bases/kueue.x-k8s.io_clusterqueues.yaml",
		"config/components/crd/bases/kueue.x-k8s.io_cohorts.yaml", "config/components/crd/bases/kueue.x-k8s.io_localqueues.yaml",
		"config/components/crd/bases/kueue.x-k8s.io_resourceflavors.yaml",
	}},
	{Neighbour: build.JobSet, Files: []string{"config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"}},
	{Neighbour: build.LeaderWorkerSet, Files: []string{"config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"}},
	{Neighbour: build.SchedulerPlugins, Files: []string{"config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"}},
	{Neighbour: build.Neighbour{Module: "volcano.sh/volcano", Version: "v1.15.0"}, Files: []string{"config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml", "config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml"}},
}

// watching is a world that also reads other projects' objects.
type watching struct{ *world }

func newWatching(t *testing.T) watching {
	t.Helper()
	rc := shared.Get(t).Cluster.RESTConfig()
	objects, err := dynamic.NewForConfig(rc)
	apis, apisErr := discovery.NewDiscoveryClientForConfig(rc)
	require.NoError(t, errors.Join(err, apisErr))
	watcher := &foreign.Watcher{
		Client: objects, Discovery: apis, Every: 500 * time.Millisecond, Changed: func() {}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	n := watching{newWorld(t, setup{foreign: watcher.Objects})}
	n.play(watcher.Run)
	t.Cleanup(func() { // other tests would read the pods of these namespaces
		for _, ns := range []string{"ml", "queued", "batch", "bounded"} {
			if err := n.Admin.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(ns), client.GracePeriodSeconds(0)); err != nil {
				t.Error(err)
			}
		}
	})
	return n
}

// apply creates objects for this test only. Left over, they would be demand in other tests.
func (n watching) apply(objects ...*unstructured.Unstructured) {
	n.t.Helper()
	n.world.apply(objects...)
	n.t.Cleanup(func() {
		for _, o := range objects {
			if o.GetKind() == "Namespace" {
				continue
			}
			if err := n.Admin.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
				n.t.Errorf("cleaning up %s %s: %v", o.GetKind(), o.GetName(), err)
			}
		}
	})
}

// sees waits until ok accepts what is observed.
func (n watching) sees(what string, ok func(observe.Observation) error) {
	n.t.Helper()
	n.await(what, func() error {
		s, err := n.seen.Observe(n.t.Context(), n.now())
		if err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			n.t.Errorf("the snapshot does not pass its check: %v", err)
		}
		return ok(s)
	})
}

// gangs lists the gangs that the planner sees, one a line, with the tenants of their pods.
func gangs(s observe.Observation) string {
	lines := map[string]int{}
	for i := range s.Pods {
		p := &s.Pods[i]
		made := "exists"
		if p.Unmade {
			made = "to come"
		}
		if pool := p.NodeSelector["gpuscale.io/pool"]; p.Namespace == "queued" { // of the ResourceFlavor that Kueue has assigned
			made += fmt.Sprintf(" on %s, tolerations %d", pool, len(p.Tolerations))
		}
		lines[fmt.Sprintf("%s min %d, %s of %q, %s", p.Gang, p.GangMin, p.Demand, p.Tenant, made)]++
	}
	var out []string
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		out = append(out, fmt.Sprintf("%d × %s", lines[line], line))
	}
	return strings.Join(out, "\n")
}

// TestForeign installs the real CRDs of Kueue, JobSet, LeaderWorkerSet, scheduler-plugins and Volcano while
// the autoscaler watches. It creates objects as in the projects' documentation.
func TestForeign(t *testing.T) {
	n := newWatching(t)
	n.apply(n.objects("foreign-world.yaml")...)
	n.sees("without the neighbours nothing is to come", func(s observe.Observation) error {
		if got := gangs(s); strings.Contains(got, "to come") {
			return errors.New(got)
		}
		return nil
	})
	n.must(n.InstallSources(t.Context(), foreignCRDs...))
	n.apply(n.objects("foreign.yaml")...)
	want := strings.TrimSpace(`
2 × batch/volcano min 2, 8 GPUs of "volcano/research", to come
1 × ml/jobset/pytorch min 2, 8 GPUs of "ml-team", exists
1 × ml/jobset/pytorch min 2, 8 GPUs of "ml-team", to come
2 × ml/lws/vllm/0 min 2, 8 GPUs of "ml-team", to come
2 × ml/nginx min 2, a GPU of "ml-team", exists
2 × ml/own min 2, 8 GPUs of "ml-team", exists
2 × ml/volcano min 2, 8 GPUs of "ml-team", to come
3 × queued/workload/job-sample-1 min 3, a GPU of "kueue/cluster-queue", to come on h100, tolerations 1`)
	n.sees("all of it, once", func(s observe.Observation) error {
		if got := gangs(s); got != want {
			return fmt.Errorf("got\n%s", got)
		}
		return nil
	})
	n.plan()
	n.resourceQuotas()

	// If a CRD is deleted, its demand disappears and nothing else changes.
	n.must(n.Admin.Delete(t.Context(), testenv.Object("apiextensions.k8s.io/v1/CustomResourceDefinition", "", "leaderworkersets.leaderworkerset.x-k8s.io")))
	n.sees("LeaderWorkerSets are gone", func(s observe.Observation) error {
		if got := gangs(s); strings.Contains(got, "/lws/") || !strings.Contains(got, "/jobset/") {
			return fmt.Errorf("got\n%s", got)
		}
		return nil
	})
}

// plan checks that nodes are added for whole gangs within the quota, and none for the gang beyond it.
func (n watching) plan() {
	n.t.Helper()
	n.sees("the plan", func(s observe.Observation) error { // each kind is watched separately
		made := plan.Make(s.Snapshot, plan.DefaultPolicy())
		to := 0
		for _, a := range made.Actions {
			if a.Verb == plan.ScaleUp {
				to = a.To
			}
		}
		reasons := map[plan.Reason]int{}
		for _, v := range made.Verdicts {
			if v.Kind == plan.KindGang {
				reasons[v.Reason]++
			}
		}
		// 3 single GPUs of the Workload, 2 of nginx, and the three gangs of two nodes that fit into the quota of 50
		// GPUs: together 7 nodes. The fourth gang would make it 66 GPUs. Volcano's queue has capacity for only half of
		// its gang.
		if to != 7 || reasons[plan.GangServed] != 5 || reasons[plan.QuotaExceeded] != 2 {
			return fmt.Errorf("scale up to %d, gangs %v\n%s", to, reasons, made)
		}
		return nil
	})
}

// resourceQuotas: the ledger and the API server agree on which pods a ResourceQuota refuses. A GPUQuota for
// the same namespace does not change that.
func (n watching) resourceQuotas() {
	n.t.Helper()
	n.apply(n.objects("bounded.yaml")...)
	tenants := func(want string) {
		n.t.Helper()
		n.sees(want, func(s observe.Observation) error {
			var got []string
			for i := range s.Pods {
				if p := &s.Pods[i]; p.Namespace == "bounded" {
					got = append(got, p.Tenant)
				}
			}
			slices.Sort(got)
			if strings.Join(got, " ") != want {
				return fmt.Errorf("tenants %q", got)
			}
			return nil
		})
	}
	const full = "resourcequota/bounded/gpus/no-more/requests.nvidia.com/gpu"
	tenants(full + " " + full) // a gang of sixteen, where twelve are allowed
	pod := func(name string) error {
		return n.Admin.Create(n.t.Context(), n.objects("bounded-pod.yaml", "NAME", name)[0])
	}
	// A ResourceQuota that has not counted yet also refuses pods, and our ledger reports both.
	n.await("the quota is counted, and a pod is made", func() error { return pod("a") })
	tenants("bounded " + full)
	if err := pod("b"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		n.t.Errorf("the API server answers %v, and our ledger refuses", err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"requests.nvidia.com/gpu":"16"}}}`))
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "bounded", Name: "gpus"}}
	n.must(n.Admin.Patch(n.t.Context(), q, patch))
	tenants("bounded bounded")
	// The API server's quota admission uses a cache of its own.
	n.await("a pod that is no longer refused", func() error { return pod("b") })
}
