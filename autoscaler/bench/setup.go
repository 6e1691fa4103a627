package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

//go:embed crds.yaml
var crds []byte

func (l *lab) startCluster(ctx, life context.Context) error {
	paths, err := build.ControlPlane(ctx, build.Options{Root: l.root})
	if err != nil {
		return err
	}
	policy := filepath.Join(l.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	_ = os.Remove(l.audit())
	l.cluster, err = cluster.Start(ctx, cluster.Options{Binaries: paths, ExtraArgs: map[string][]string{
		cluster.APIServer: {"--audit-policy-file=" + policy, "--audit-log-path=" + l.audit(), "--audit-log-mode=blocking"},
	}})
	if err != nil {
		return err
	}
	if err := l.schedule(ctx); err != nil {
		return err
	}
	l.rest = l.cluster.RESTConfig()
	if l.client, err = client.New(l.rest, client.Options{Scheme: scheme.New()}); err != nil {
		return err
	}
	ours := rest.CopyConfig(l.rest)
	ours.ContentType = "application/vnd.kubernetes.protobuf"
	if l.clients, err = kubernetes.NewForConfig(ours); err != nil {
		return err
	}
	l.seen = newSeen(l.cards)
	l.machines = newMachines(l.client, bootedNode, l.o.boot)
	return l.seen.watch(life, l.clients)
}

// packing has the scheduler fill nodes with cards before it takes others, as clusters
// with cards are advised to: by default it spreads pods, and then large ones find no
// node that is free enough, whatever was bought for them.
const packing = `
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 100}]}}
`

// schedule starts the scheduler again, where it is to pack.
func (l *lab) schedule(ctx context.Context) error {
	if l.o.scheduler == "spread" {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(l.cluster.Dir(), "scheduler.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("configuring the scheduler: %w", err)
	}
	_, err = f.WriteString(packing)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("configuring the scheduler: %w", err)
	}
	if err := l.cluster.StopProgram(cluster.Scheduler); err != nil {
		return err
	}
	return l.cluster.StartProgram(ctx, cluster.Scheduler)
}

// makePools makes the kinds, the program's rights, and all pools.
func (l *lab) makePools(ctx, life context.Context) error {
	for _, name := range []string{system, work, partition.DefaultConfigMap.Namespace} {
		if err := l.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	for _, file := range []string{"deploy/crds/gpuscale.io_gpunodepools.yaml", "deploy/crds/gpuscale.io_gpuquotas.yaml", "deploy/manifests/autoscaler.yaml", ""} {
		text := crds
		if file != "" {
			var err error
			if text, err = os.ReadFile(filepath.Join(l.root, file)); err != nil {
				return fmt.Errorf("reading a manifest: %w", err)
			}
		}
		objects, err := neighbours.Parse(text)
		if err != nil {
			return err
		}
		for _, o := range objects {
			switch o.GetKind() {
			case "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
				if err := l.create(ctx, o); err != nil {
					return err
				}
			}
		}
	}
	all := []client.Object{
		pool(poolBase, l.o.nodes, l.o.nodes, 98, false),
		inOnes(pool(poolCut, 1, 4, 98, true)), inOnes(pool(poolBusy, 1, 1, 98, false)),
		pool(poolGang, 0, 5, 98, true), machineDeployment(poolGang), machineDeployment(poolCut),
	}
	for n := range l.o.pools {
		all = append(all, pool(growing(n), 0, 20_000, 90+float64(n), true), machineDeployment(growing(n)))
	}
	for _, o := range all {
		if err := l.create(ctx, o); err != nil {
			return err
		}
	}
	d, err := dynamic.NewForConfig(l.rest)
	if err != nil {
		return err
	}
	go func() {
		if err := l.machines.run(life, d); err != nil {
			l.broken <- err
		}
	}()
	return nil
}

// makeNodes makes the nodes that are there, and what fills them: one pod, two, or
// eight to a node. They are bound as they are made, as a scheduler did long ago.
func (l *lab) makeNodes(ctx, _ context.Context) error {
	manager := partition.NewManager(l.client, l.client, partition.DefaultConfigMap)
	if _, err := manager.Publish(ctx, onesLayout()); err != nil {
		return err
	}
	var pods []*corev1.Pod
	on := func(node, name string, of corev1.ResourceName, n int) {
		p := podOf(name, of, n)
		p.Spec.NodeName = node
		pods = append(pods, p)
	}
	nodes := []*corev1.Node{cutNodeOf("busy-1", poolBusy)}
	for i := range cardsOfNode * onesOfCard {
		on("busy-1", fmt.Sprintf("busy-%d", i), one, 1)
	}
	for n := range l.o.nodes {
		name := fmt.Sprintf("base-%05d", n)
		nodes = append(nodes, nodeOf(name, poolBase))
		cards := []int{8, 4, 1}[n%3]
		for i := range cardsOfNode / cards {
			on(name, fmt.Sprintf("base-%05d-%d", n, i), whole, cards)
		}
	}
	if err := each(ctx, len(nodes), func(i int) error { return l.create(ctx, nodes[i]) }); err != nil {
		return err
	}
	// The service account default is made a moment after its namespace.
	if err := l.until(ctx, time.Minute, func() error {
		return l.client.Get(ctx, client.ObjectKey{Namespace: work, Name: "default"}, &corev1.ServiceAccount{})
	}); err != nil {
		return err
	}
	if err := each(ctx, len(pods), func(i int) error { return l.create(ctx, pods[i]) }); err != nil {
		return err
	}
	return l.until(ctx, 10*time.Minute, func() error {
		_, ready := l.seen.nodes()
		running := 0
		for _, p := range l.seen.lives(func(string) bool { return true }) {
			if !p.running.IsZero() {
				running++
			}
		}
		if ready < len(nodes) || running < len(pods) {
			return fmt.Errorf("%d of %d nodes are ready, %d of %d pods run", ready, len(nodes), running, len(pods))
		}
		return nil
	})
}

// config is the default but for what bounds how much may be bought at once, and how
// long after that nothing is given back.
func (l *lab) config() string {
	text := `policy:
  maxNodesPerScaleUp: 10000
  maxNodesPerHour: 100000
  scaleDownCooldown: 10s
`
	if l.o.readers {
		text += "prometheus: {url: " + l.cards.URL + "}\n"
	}
	return text
}

func (l *lab) startSubject(ctx, _ context.Context) error {
	kubeconfig, err := l.cluster.ServiceAccountKubeconfig(ctx, system, "gpuscale-autoscaler")
	if err != nil {
		return err
	}
	file := filepath.Join(l.dir, "autoscaler.yaml")
	if err := os.WriteFile(file, []byte(l.config()), 0o600); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("finding a free port: %w", err)
	}
	l.address = listener.Addr().String()
	listener.Close()
	l.subject, err = l.cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-autoscaler", Path: l.o.binary, Log: filepath.Join(l.dir, "gpuscale-autoscaler.log"),
		Args: []string{"--config=" + file, "--listen=" + l.address, "--kubeconfig=" + kubeconfig},
	})
	if err != nil {
		return err
	}
	// Ready is the first round; the pools' statuses tell that all is known.
	return l.until(ctx, 2*time.Minute, func() error {
		resp, err := http.Get("http://" + l.address + "/readyz")
		if err != nil {
			return err
		}
		resp.Body.Close()
		var p v1alpha1.GPUNodePool
		if err := l.client.Get(ctx, client.ObjectKey{Name: poolBase}, &p); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK || int(p.Status.Ready) != l.o.nodes {
			return fmt.Errorf("/readyz answers %s; pool %s has %d nodes ready", resp.Status, poolBase, p.Status.Ready)
		}
		return nil
	})
}
