package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

const explainWorld = `
apiVersion: v1
kind: Namespace
metadata: {name: gpuscale-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: gpu-operator}
---
apiVersion: v1
kind: Namespace
metadata: {name: team}
`

const explainPool = `
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: l40s}
spec:
  min: 0
  max: 1
  pricePerHour: "2"
  provider: {kwok: {}}
  template: {product: L40S, cards: 1, cpu: "32", memory: 256Gi}
`

const explainPod = `
---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: team}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: none
    resources: {requests: {cpu: "1", nvidia.com/gpu: "1"}, limits: {nvidia.com/gpu: "1"}}
`

// explainBed is a control plane with our autoscaler, under the rights its manifest
// gives it, and kubectl, through which people look.
type explainBed struct {
	t                  *testing.T
	cluster            *cluster.Cluster
	kubectl, program   string
	root, url, address string
}

func newExplainBed(t *testing.T) *explainBed {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts a control plane")
	}
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := build.ControlPlane(t.Context(), build.Options{Root: root, Out: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	b := &explainBed{t: t, root: root, kubectl: paths.Program("kubectl"), program: filepath.Join(t.TempDir(), "gpuscale-autoscaler")}
	b.run(root, "go", "build", "-o", b.program, "./autoscaler")
	if b.cluster, err = cluster.Start(t.Context(), cluster.Options{Binaries: paths, Parent: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.cluster.Stop)
	b.apply(explainWorld)
	b.kube("apply", "-f", filepath.Join(root, "deploy", "crds"))
	b.kube("apply", "-f", filepath.Join(root, "deploy", "manifests", "autoscaler.yaml"))
	b.kube("wait", "--for=condition=established", "--timeout=60s", "crd/gpunodepools.gpuscale.io")
	b.start()
	return b
}

// start runs the autoscaler; Prometheus is not needed for whole cards.
func (b *explainBed) start() {
	b.t.Helper()
	kubeconfig, err := b.cluster.ServiceAccountKubeconfig(b.t.Context(), "gpuscale-system", "gpuscale-autoscaler")
	if err != nil {
		b.t.Fatal(err)
	}
	b.address = freeAddress(b.t)
	b.url = "http://" + b.address
	config := filepath.Join(b.t.TempDir(), "autoscaler.yaml")
	if err := os.WriteFile(config, []byte("leaderElection: {enabled: false}\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
	log := b.cluster.LogFile("gpuscale-autoscaler")
	if _, err := b.cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-autoscaler", Path: b.program, Log: log,
		Args: []string{"--config=" + config, "--listen=" + b.address, "--kubeconfig=" + kubeconfig},
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if b.t.Failed() {
			text, _ := os.ReadFile(log)
			b.t.Logf("the autoscaler's log:\n%s", text[max(0, len(text)-6000):])
		}
	})
}

func (b *explainBed) run(dir, name string, args ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func (b *explainBed) kube(args ...string) string {
	b.t.Helper()
	return b.run(b.root, b.kubectl, append([]string{"--kubeconfig", b.cluster.Kubeconfig()}, args...)...)
}

func (b *explainBed) apply(text string) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.kube("apply", "-f", file)
}

// until asks again until the answer has all the words, for two minutes at most.
func (b *explainBed) until(ask func() string, words ...string) string {
	b.t.Helper()
	var answer string
	await.For(b.t, 2*time.Minute, fmt.Sprintf("all of %q", words), func() error {
		if answer = ask(); lacksAny(answer, words) {
			return fmt.Errorf("in\n%s", answer)
		}
		return nil
	})
	return answer
}

func lacksAny(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// TestPeopleAreTold: on a real control plane, kubectl describe tells the owner of a
// pod in one line what will happen, and the owner of another what to ask for; the
// pool says what was done to it and what limits it; explain says what would help;
// and doing that helps.
func TestPeopleAreTold(t *testing.T) {
	b := newExplainBed(t)
	b.apply(explainPool)
	b.apply(fmt.Sprintf(explainPod, "first"))
	describe := func(kind, name string) func() string {
		return func() string { return b.kube("-n", "team", "describe", kind, name) }
	}
	told := b.until(describe("pod", "first"), "TriggeredScaleUp", "gpuscale-autoscaler")
	if !strings.Contains(told, "l40s 0→1, NoFreeSlice: team/first wants a card") || !strings.Contains(told, "a new node of l40s") || strings.Contains(told, "WaitUpcomingNode") {
		t.Errorf("the pod's owner reads:\n%s", told)
	}
	b.until(func() string { return b.kube("-n", "team", "get", "pod", "first") }, "Running")

	b.apply(fmt.Sprintf(explainPod, "second"))
	told = b.until(describe("pod", "second"), "PoolAtMax")
	if !strings.Contains(told, "Warning  PoolAtMax") || !strings.Contains(told, "l40s has 1 of 1 nodes. Raise the pool's max") {
		t.Errorf("the other pod's owner reads:\n%s", told)
	}
	events := b.kube("-n", "team", "get", "events.v1.events.k8s.io", "-o", "jsonpath={range .items[?(@.reason=='PoolAtMax')]}{.regarding.name} {.reportingController} {.type}{'\\n'}{end}")
	if events != "second gpuscale-autoscaler Warning\n" {
		t.Errorf("Events in events.k8s.io: %q", events)
	}
	pool := b.until(describe("gpunodepool", "l40s"), "Last Decisions", "scale-up", "ScalingLimited", "PoolAtMax")
	if !strings.Contains(pool, "0→1: team/first wants a card") {
		t.Errorf("the pool:\n%s", pool)
	}

	explained := b.run(b.root, b.program, "explain", "pod", "team/second", "--url", b.url)
	if lacksAny(explained, []string{"PoolAtMax", "raise max of pool l40s from 1 to 2", "then WaitUpcomingNode"}) {
		t.Errorf("explained:\n%s", explained)
	}
	snapshot := filepath.Join(t.TempDir(), "snapshot.txt")
	if err := os.WriteFile(snapshot, []byte(b.run(b.root, b.kubectl, "get", "--raw", "/debug/snapshot", "--server", b.url)), 0o600); err != nil {
		t.Fatal(err)
	}
	if offline := b.run(b.root, b.program, "plan", "-f", snapshot); !strings.Contains(offline, "pod team/second PoolAtMax") {
		t.Errorf("planned from the live snapshot:\n%s", offline)
	}
	b.kube("patch", "gpunodepool", "l40s", "--type=merge", "-p", `{"spec":{"max":2}}`)
	b.until(func() string { return b.kube("-n", "team", "get", "pod", "second") }, "Running")
}
