package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

//go:embed crds.yaml
var crds []byte

// lab is a control plane, the fakes, and the program that is measured.
type lab struct {
	o         options
	root, dir string
	cluster   *cluster.Cluster
	client    client.Client
	podList   corelisters.PodLister
	nodeList  corelisters.NodeLister
	server    *httptest.Server // of exporters
	subject   *proc.Process
	broken    chan error // from the fake of Cluster API's controllers
}

// newLab returns once everything runs and is idle. stop must be called even after an error.
func newLab(ctx context.Context, o options) (l *lab, stop func(), err error) {
	l = &lab{o: o, broken: make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	stop = func() {
		cancel()
		if l.server != nil {
			l.server.Close()
		}
		if l.cluster != nil {
			l.cluster.Stop()
		}
		_ = os.RemoveAll(l.dir)
	}
	if l.root, err = build.FindRoot(); err == nil {
		l.dir, err = os.MkdirTemp("", "gpuscale-bench-")
	}
	if err != nil {
		return l, stop, err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"starting the control plane", l.startCluster},
		{"creating pools", l.createPools},
		{fmt.Sprintf("creating %d full nodes", o.nodes), l.createNodes},
		{"starting the autoscaler", l.startSubject},
		{"waiting until it is idle", func(ctx context.Context) error { return pause(ctx, 30*time.Second) }},
	} {
		fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), step.what)
		if err := step.do(ctx); err != nil {
			return l, stop, fmt.Errorf("%s: %w", step.what, errors.Join(err, l.ended()))
		}
	}
	return l, stop, nil
}

// ended returns the error of a program of the control plane that has ended.
func (l *lab) ended() error {
	if l.cluster == nil {
		return nil
	}
	return l.cluster.Err()
}

// packing makes the scheduler fill nodes one by one. By default it spreads pods, so that
// pods of many GPUs fit on no node.
const packing = `
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 100}]}}
`

func (l *lab) startCluster(ctx context.Context) error {
	paths, err := build.ControlPlane(ctx, build.Options{Root: l.root})
	if err != nil {
		return err
	}
	if l.cluster, err = cluster.Start(ctx, cluster.Options{Binaries: paths}); err != nil {
		return err
	}
	file := filepath.Join(l.cluster.Dir(), "scheduler.yaml")
	config, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(config, packing...), 0o600)
	}
	if err == nil {
		err = l.cluster.StopProgram(cluster.Scheduler)
	}
	if err == nil {
		err = l.cluster.StartProgram(ctx, cluster.Scheduler)
	}
	if err != nil {
		return fmt.Errorf("configuring the scheduler: %w", err)
	}
	if l.client, err = client.New(l.cluster.RESTConfig(), client.Options{Scheme: scheme.New()}); err != nil {
		return err
	}
	k, err := kubernetes.NewForConfig(l.cluster.RESTConfig())
	if err != nil {
		return err
	}
	f := informers.NewSharedInformerFactory(k, 0)
	l.podList, l.nodeList = f.Core().V1().Pods().Lister(), f.Core().V1().Nodes().Lister()
	f.Start(ctx.Done())
	f.WaitForCacheSync(ctx.Done())
	l.server = httptest.NewServer(newExporters(l.nodes, l.pods))
	return ctx.Err()
}

func (l *lab) nodes() []*corev1.Node {
	all, _ := l.nodeList.List(labels.Everything()) // a cache gives no error
	return all
}

// pods returns the pods of the bench.
func (l *lab) pods() []*corev1.Pod {
	all, _ := l.podList.Pods(work).List(labels.Everything())
	return all
}

// createPools creates the CRDs, the program's RBAC objects, and the pools.
func (l *lab) createPools(ctx context.Context) error {
	var all []client.Object
	for _, name := range []string{system, work, partition.DefaultConfigMap.Namespace} {
		all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	text := crds
	for _, file := range []string{"chart/gpuscale/files/crds/gpuscale.io_gpunodepools.yaml", "chart/gpuscale/files/crds/gpuscale.io_gpuquotas.yaml", "manifests/autoscaler.yaml"} {
		more, err := os.ReadFile(filepath.Join(l.root, "deploy", file))
		if err != nil {
			return err
		}
		text = slices.Concat(text, []byte("\n---\n"), more)
	}
	objects, err := neighbours.Parse(text)
	if err != nil {
		return err
	}
	for _, o := range objects {
		switch o.GetKind() {
		case "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
			all = append(all, o)
		}
	}
	there, empty, deployment := pools()
	for _, o := range append(all, there, empty, deployment) {
		if err := l.create(ctx, o); err != nil {
			return err
		}
	}
	go func() { l.broken <- (&neighbours.Machines{Client: l.client, Nodes: offers}).Run(ctx) }()
	return nil
}

// create creates an object, once its kind is served and its namespace exists.
func (l *lab) create(ctx context.Context, o client.Object) error {
	return l.until(ctx, time.Minute, func() error {
		err := l.client.Create(ctx, o)
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) { // forbidden: no service account yet
			return await.Final(fmt.Errorf("creating %s: %w", o.GetName(), err))
		}
		return err
	})
}

// until awaits done, up to a time-out.
func (l *lab) until(ctx context.Context, most time.Duration, done func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("not within %s", most))
	defer cancel()
	return l.cluster.Await(ctx, func(context.Context) error {
		select {
		case err := <-l.broken:
			return await.Final(fmt.Errorf("the fake of Cluster API: %w", err))
		default:
			return done()
		}
	})
}

// createNodes creates the nodes of pool base and the pods that fill them, already bound.
func (l *lab) createNodes(ctx context.Context) error {
	var pods []*corev1.Pod
	for n := range l.o.nodes {
		gpus := []int{8, 4, 1}[n%3]
		for i := range gpusOfNode / gpus {
			pods = append(pods, podOf(fmt.Sprintf("base-%05d-%d", n, i), fmt.Sprintf("base-%05d", n), gpus))
		}
	}
	if err := each(ctx, l.o.nodes, func(n int) error { return l.create(ctx, nodeOf(fmt.Sprintf("base-%05d", n))) }); err != nil {
		return err
	}
	if err := each(ctx, len(pods), func(n int) error { return l.create(ctx, pods[n]) }); err != nil {
		return err
	}
	return l.until(ctx, 10*time.Minute, func() error { return l.allRun("base-", len(pods)) })
}

// burst creates the pods, waits until all run, and returns the number of nodes added.
func (l *lab) burst(ctx context.Context) (added int, err error) {
	fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), "creating", l.o.pods, "pods")
	err = each(ctx, l.o.pods, func(n int) error {
		return l.create(ctx, podOf(fmt.Sprintf("burst-%05d", n), "", requests(n)))
	})
	if err == nil {
		err = l.until(ctx, 10*time.Minute, func() error { return l.allRun("burst-", l.o.pods) })
	}
	return len(l.nodes()) - l.o.nodes, errors.Join(err, l.ended())
}

func (l *lab) allRun(prefix string, n int) error {
	run := 0
	for _, p := range l.pods() {
		if strings.HasPrefix(p.Name, prefix) && p.Status.Phase == corev1.PodRunning {
			run++
		}
	}
	if run < n {
		return fmt.Errorf("%d of %d pods run", run, n)
	}
	return nil
}

// startSubject compiles and starts the program, with the default configuration except for
// the limits on scale-ups.
func (l *lab) startSubject(ctx context.Context) error {
	binary, file := filepath.Join(l.dir, "gpuscale-autoscaler"), filepath.Join(l.dir, "autoscaler.yaml")
	compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "github.com/gpuscale/gpuscale/autoscaler")
	compile.Stderr = os.Stderr
	if err := compile.Run(); err != nil {
		return err
	}
	config := "policy: {maxNodesPerScaleUp: 10000, maxNodesPerHour: 100000}\nprometheus: {url: " + l.server.URL + "}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	kubeconfig, err := l.cluster.ServiceAccountKubeconfig(ctx, system, "gpuscale-autoscaler")
	if err != nil {
		return err
	}
	port, release, err := proc.ReservePort()
	if err != nil {
		return err
	}
	release()
	address := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	if l.subject, err = l.cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-autoscaler", Path: binary, Log: filepath.Join(l.dir, "gpuscale-autoscaler.log"),
		Args: []string{"--config=" + file, "--listen=" + address, "--kubeconfig=" + kubeconfig},
	}); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "go tool pprof http://%s/debug/pprof/profile shows where its CPU time goes\n", address)
	return l.until(ctx, 2*time.Minute, func() error {
		resp, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return err
		}
		resp.Body.Close()
		var p v1alpha1.GPUNodePool
		if err := l.client.Get(ctx, client.ObjectKey{Name: base}, &p); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK || int(p.Status.Ready) != l.o.nodes {
			return fmt.Errorf("/readyz answers %s; pool %s has %d nodes ready", resp.Status, base, p.Status.Ready)
		}
		return nil
	})
}

// each calls do n times, in parallel.
func each(ctx context.Context, n int, do func(i int) error) error {
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, 16, n, func(i int) { errs[i] = do(i) })
	return errors.Join(append(errs, context.Cause(ctx))...)
}
