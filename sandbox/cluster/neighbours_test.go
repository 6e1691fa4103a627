package cluster_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	ctrl "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// neighbourCRDs are the real definitions, in the modules of those who write them.
var neighbourCRDs = map[string][]string{
	"sigs.k8s.io/kueue@v0.15.0": {
		"config/components/crd/bases/kueue.x-k8s.io_workloads.yaml", "config/components/crd/bases/kueue.x-k8s.io_clusterqueues.yaml",
		"config/components/crd/bases/kueue.x-k8s.io_cohorts.yaml", "config/components/crd/bases/kueue.x-k8s.io_localqueues.yaml",
		"config/components/crd/bases/kueue.x-k8s.io_resourceflavors.yaml",
	},
	"sigs.k8s.io/jobset@v0.10.1":            {"config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"},
	"sigs.k8s.io/lws@v0.7.0":                {"config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"},
	"sigs.k8s.io/scheduler-plugins@v0.33.5": {"config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"},
	"volcano.sh/volcano@v1.15.0":            {"config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml", "config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml"},
}

// neighbours is a control plane, what the autoscaler sees of it, and its planner.
type neighbours struct {
	t        *testing.T
	client   ctrl.Client
	watcher  *foreign.Watcher
	observer *observe.Observer
}

func newNeighbours(t *testing.T, c *cluster.Cluster) *neighbours {
	t.Helper()
	rc := c.RESTConfig()
	rc.QPS, rc.Burst = 200, 400
	n := &neighbours{t: t}
	objects, err := dynamic.NewForConfig(rc)
	apis, apisErr := discovery.NewDiscoveryClientForConfig(rc)
	var clientErr error
	n.client, clientErr = ctrl.New(rc, ctrl.Options{Scheme: scheme.New()})
	if err := errors.Join(err, apisErr, clientErr); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	n.watcher = foreign.NewWatcher(foreign.WatcherOptions{Client: objects, Discovery: apis, Every: 500 * time.Millisecond, Log: log})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.watcher.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	m := partition.NewManager(n.client, n.client, partition.DefaultConfigMap)
	n.observer = observe.New(observe.Options{
		Cluster: n.client, Readings: func() *observe.Readings { return nil }, Foreign: n.watcher.Objects,
		Pools: pools.Providers{KWOK: pools.NewKWOK(n.client, n.client, m)}, ConfigMap: partition.DefaultConfigMap, Log: log,
	})
	return n
}

// apply creates every object of a text; one with a status gets it, too.
func (n *neighbours) apply(text []byte) {
	n.t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			n.t.Fatal(err)
		}
		var u unstructured.Unstructured
		if err := utilyaml.Unmarshal(doc, &u.Object); err != nil {
			n.t.Fatalf("%v in %s", err, doc)
		}
		if len(u.Object) == 0 {
			continue
		}
		status := u.Object["status"]
		// A definition takes a moment until objects of it can be made.
		await.For(n.t, patience, "creating "+u.GetKind()+" "+u.GetName(), func() error {
			made := u.DeepCopy()
			err := n.client.Create(n.t.Context(), made)
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			if err != nil || status == nil || u.GetKind() == "CustomResourceDefinition" {
				return err
			}
			made.Object["status"] = status
			return n.client.Status().Update(n.t.Context(), made)
		})
	}
}

// modules downloads the modules and returns their folders.
func modules(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"mod", "download", "-json"}, slices.Sorted(maps.Keys(neighbourCRDs))...)...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.Output()
	dirs := map[string]string{}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var m struct{ Path, Version, Dir, Error string }
		if decodeErr := decoder.Decode(&m); decodeErr != nil {
			break
		}
		if m.Error != "" {
			t.Skipf("the real definitions cannot be had here: %s", m.Error)
		}
		dirs[m.Path+"@"+m.Version] = m.Dir
	}
	if len(dirs) != len(neighbourCRDs) {
		t.Skipf("the real definitions cannot be had here: %v", err)
	}
	return dirs
}

// seen is what the planner sees of the gangs, one line each, and the tenants of
// their pods.
func (n *neighbours) seen() (string, error) {
	s, err := n.observer.Observe(n.t.Context(), time.Now())
	if err != nil {
		return "", err
	}
	if err := s.Check(); err != nil {
		n.t.Errorf("the snapshot does not pass its check: %v", err)
	}
	lines := map[string]int{}
	for i := range s.Pods {
		p := &s.Pods[i]
		made := "exists"
		if p.Unmade {
			made = "to come"
		}
		lines[fmt.Sprintf("%s min %d, %s of %q, %s", p.Gang, p.GangMin, p.Demand, p.Tenant, made)]++
	}
	var out []string
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		out = append(out, fmt.Sprintf("%d × %s", lines[line], line))
	}
	return strings.Join(out, "\n"), nil
}

// TestNeighbours: the real CRDs of Kueue, JobSet, LeaderWorkerSet, scheduler-plugins
// and Volcano, installed while we watch, with objects as their documents write them.
func TestNeighbours(t *testing.T) {
	dirs := modules(t)
	c := start(t, func(o *cluster.Options) {
		o.Prometheus = nil
		o.FeatureGates = "GenericWorkload=true"
		o.ExtraArgs = map[string][]string{cluster.APIServer: {"--runtime-config=scheduling.k8s.io/v1beta1=true"}}
	})
	n := newNeighbours(t, c)
	for _, file := range []string{"gpuscale.io_gpunodepools.yaml", "gpuscale.io_gpuquotas.yaml"} {
		n.file("../../deploy/crds/" + file)
	}
	n.apply([]byte(neighbourWorld))
	await.For(t, patience, "without the neighbours nothing is to come", func() error {
		got, err := n.seen()
		if err == nil && strings.Contains(got, "to come") {
			err = errors.New(got)
		}
		return err
	})
	for module, files := range neighbourCRDs {
		for _, file := range files {
			n.file(filepath.Join(dirs[module], file))
		}
	}
	n.apply([]byte(neighbourObjects))
	want := strings.TrimSpace(`
2 × batch/volcano min 2, 8 cards of "volcano/research", to come
1 × ml/jobset/pytorch min 2, 8 cards of "ml-team", exists
1 × ml/jobset/pytorch min 2, 8 cards of "ml-team", to come
2 × ml/lws/vllm/0 min 2, 8 cards of "ml-team", to come
2 × ml/nginx min 2, 1 card of "ml-team", exists
2 × ml/own min 2, 8 cards of "ml-team", exists
2 × ml/volcano min 2, 8 cards of "ml-team", to come
3 × queued/workload/job-sample-1 min 3, 1 card of "kueue/cluster-queue", to come`)
	await.For(t, patience, "all of it is seen, once", func() error {
		got, err := n.seen()
		if err == nil && got != want {
			err = fmt.Errorf("got\n%s", got)
		}
		return err
	})
	n.flavors()
	n.plan()
	n.quotas()
	n.resourceQuotas()

	// A definition that goes takes its demand with it, and nothing else.
	gone := &unstructured.Unstructured{}
	gone.SetAPIVersion("apiextensions.k8s.io/v1")
	gone.SetKind("CustomResourceDefinition")
	gone.SetName("leaderworkersets.leaderworkerset.x-k8s.io")
	if err := n.client.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	await.For(t, patience, "LeaderWorkerSets are gone", func() error {
		got, err := n.seen()
		if err == nil && (strings.Contains(got, "/lws/") || !strings.Contains(got, "/jobset/")) {
			err = fmt.Errorf("got\n%s", got)
		}
		return err
	})
}

func (n *neighbours) file(name string) {
	n.t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		n.t.Fatal(err)
	}
	n.apply(text)
}

// plan: nodes for whole gangs within the quota, none for the gang beyond it.
func (n *neighbours) plan() {
	n.t.Helper()
	await.For(n.t, patience, "the plan", func() error { // each kind is heard of by itself
		s, err := n.observer.Observe(n.t.Context(), time.Now())
		if err != nil {
			return err
		}
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
		// 3 single cards of the Workload, 2 of nginx and the three gangs of two nodes
		// that the quota of 50 cards admits fit on 7 nodes; the fourth gang would make 66,
		// and Volcano's queue has room for half of its gang.
		if to != 7 || reasons[plan.GangServed] != 5 || reasons[plan.QuotaExceeded] != 2 {
			return fmt.Errorf("scale up to %d, gangs %v\n%s", to, reasons, made)
		}
		return nil
	})
}

// quotas: what contradicts itself is refused by the API server, and what contradicts
// others is a condition.
func (n *neighbours) quotas() {
	n.t.Helper()
	for name, c := range map[string]struct{ spec, want string }{
		"own-parent":   {"{parent: own-parent, amounts: [{model: any}]}", "spec.parent must not be the quota itself"},
		"limit":        {"{amounts: [{model: any, guaranteed: 3, limit: 2500m}]}", "limit must not be below guaranteed"},
		"below-zero":   {`{amounts: [{model: any, guaranteed: "-1"}]}`, "guaranteed must not be below 0"},
		"no-amounts":   {"{amounts: []}", "spec.amounts"},
		"pods-nowhere": {"{tenants: {podSelector: {}}, amounts: [{model: any}]}", "podSelector needs namespaces"},
		"twice":        {"{amounts: [{model: any}, {model: any}]}", "Duplicate value"},
	} {
		var u unstructured.Unstructured
		if err := utilyaml.Unmarshal([]byte("apiVersion: gpuscale.io/v1alpha1\nkind: GPUQuota\nmetadata: {name: "+name+"}\nspec: "+c.spec), &u.Object); err != nil {
			n.t.Fatal(err)
		}
		if err := n.client.Create(n.t.Context(), &u); err == nil || !strings.Contains(err.Error(), c.want) {
			n.t.Errorf("%s: err = %v, want %q", name, err, c.want)
		}
	}
	n.apply([]byte(`apiVersion: gpuscale.io/v1alpha1
kind: GPUQuota
metadata: {name: zz-second}
spec: {tenants: {namespaces: [ml]}, amounts: [{guaranteed: 1}]}`))
	s, err := n.observer.Observe(n.t.Context(), time.Now())
	if err != nil {
		n.t.Fatal(err)
	}
	status := ledger.Statuses(s.Quotas, &s.Snapshot, s.QuotaProblems)["zz-second"]
	if len(status.Conditions) != 1 || status.Conditions[0].Status != metav1.ConditionFalse || !strings.Contains(status.Conditions[0].Message, "namespace ml counts towards GPUQuota ml-team already") {
		n.t.Errorf("conditions %+v", status.Conditions)
	}
	if got := ledger.Statuses(s.Quotas, &s.Snapshot, s.QuotaProblems)["ml-team"]; got.Waiting != "66" || got.Used != "0" {
		n.t.Errorf("ml-team: %+v", got)
	}
}

// flavors: pods to come have the node labels and tolerations of the ResourceFlavor
// that Kueue has assigned.
func (n *neighbours) flavors() {
	n.t.Helper()
	await.For(n.t, patience, "the flavor of pods to come", func() error {
		s, err := n.observer.Observe(n.t.Context(), time.Now())
		if err != nil {
			return err
		}
		for i := range s.Pods {
			p := &s.Pods[i]
			if p.Namespace == "queued" && (p.NodeSelector["gpuscale.io/pool"] != "h100" || len(p.Tolerations) != 1) {
				return fmt.Errorf("%s: node selector %v, tolerations %v", p.Key(), p.NodeSelector, p.Tolerations)
			}
		}
		return nil
	})
}

// resourceQuotas: what the ledger says that the API server would refuse is what it
// refuses, whatever a GPUQuota over the same namespace admits.
func (n *neighbours) resourceQuotas() {
	n.t.Helper()
	const one = `{name: c, image: example/c, resources: {limits: {nvidia.com/gpu: "8"}}}`
	n.apply([]byte(`apiVersion: v1
kind: Namespace
metadata: {name: bounded}
---
apiVersion: v1
kind: ResourceQuota
metadata: {namespace: bounded, name: gpus}
spec: {hard: {requests.nvidia.com/gpu: "12"}}
---
apiVersion: gpuscale.io/v1alpha1
kind: GPUQuota
metadata: {name: bounded}
spec: {tenants: {namespaces: [bounded]}, amounts: [{model: any, guaranteed: 50}]}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {namespace: bounded, name: train}
spec: {replicatedJobs: [{name: w, template: {spec: {parallelism: 2, completions: 2, template: {spec: {containers: [` + one + `]}}}}}]}`))
	tenants := func(want string) {
		n.t.Helper()
		await.For(n.t, patience, want, func() error {
			s, err := n.observer.Observe(n.t.Context(), time.Now())
			if err != nil {
				return err
			}
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
	tenants(full + " " + full) // a gang of sixteen, and twelve are allowed
	pod := func(name string) error {
		var u unstructured.Unstructured
		if err := utilyaml.Unmarshal([]byte("apiVersion: v1\nkind: Pod\nmetadata: {namespace: bounded, name: "+name+", labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: w}}\nspec: {containers: ["+one+"]}"), &u.Object); err != nil {
			n.t.Fatal(err)
		}
		return n.client.Create(n.t.Context(), &u)
	}
	// What a quota has not counted yet it refuses, too, and we say the same of both.
	await.For(n.t, patience, "the quota is counted, and a pod is made", func() error { return pod("a") })
	tenants("bounded " + full)
	if err := pod("b"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		n.t.Errorf("the API server says %v, and we that it refuses", err)
	}
	patch := ctrl.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"requests.nvidia.com/gpu":"16"}}}`))
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "bounded", Name: "gpus"}}
	if err := n.client.Patch(n.t.Context(), q, patch); err != nil {
		n.t.Fatal(err)
	}
	tenants("bounded bounded")
	// What refuses goes by a cache of its own.
	await.For(n.t, patience, "a pod that is no longer refused", func() error { return pod("b") })
}
