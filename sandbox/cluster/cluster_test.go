package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

const slice corev1.ResourceName = "nvidia.com/mig-3g.40gb"

const prometheusConfig = `
global: {scrape_interval: 1s}
scrape_configs:
- job_name: self
  static_configs: [{targets: []}]
  file_sd_configs: [{files: ["targets/*.json"]}]
`

// patience with what takes a second or two where nobody else computes.
const patience = time.Minute

func start(t *testing.T, change func(*cluster.Options)) *cluster.Cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real control plane, which takes minutes to compile the first time")
	}
	binaries, err := build.All(t.Context(), build.Options{Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	o := cluster.Options{
		Binaries:   binaries,
		Log:        slog.New(slog.NewTextHandler(t.Output(), nil)),
		Parent:     t.TempDir(),
		Prometheus: []byte(prometheusConfig),
	}
	if change != nil {
		change(&o)
	}
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func client(t *testing.T, c *cluster.Cluster) kubernetes.Interface {
	t.Helper()
	k, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func fakeNode(name string) *corev1.Node {
	have := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("110"), slice: resource.MustParse("2"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{cluster.AnnotationFake: "fake"}},
		Status:     corev1.NodeStatus{Allocatable: have, Capacity: have},
	}
}

func podWanting(name string, n string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "model", Image: "example/model",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{slice: resource.MustParse(n)}},
		}}},
	}
}

// TestPodsGetSlices is the life of nodes and pods as the sandbox needs it.
func TestPodsGetSlices(t *testing.T) {
	c := start(t, nil)
	k, ctx := client(t, c), t.Context()
	nodes, pods := k.CoreV1().Nodes(), k.CoreV1().Pods("default")

	if _, err := nodes.Create(ctx, fakeNode("mig-a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// KWOK must leave this one alone.
	stranger := fakeNode("stranger")
	stranger.Annotations, stranger.Spec.Unschedulable = nil, true
	if _, err := nodes.Create(ctx, stranger, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	states, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer states.Stop()
	for name, annotations := range map[string]map[string]string{
		"server": {cluster.AnnotationReadyAfter: "2s"},
		"job":    {cluster.AnnotationRunFor: "1s"},
	} {
		if _, err := pods.Create(ctx, podWanting(name, "1", annotations), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	phase := func(name string, want corev1.PodPhase, ready bool) func() error {
		return func() error {
			p, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if p.Status.Phase != want || isReady(p.Status.Conditions) != ready {
				return fmt.Errorf("%s is %s, ready %v: %v", name, p.Status.Phase, isReady(p.Status.Conditions), p.Status.Conditions)
			}
			return nil
		}
	}
	if !ranBefore(t, states, "server") {
		t.Error("server was ready as soon as it ran")
	}
	await.For(t, patience, "job done", phase("job", corev1.PodSucceeded, false))

	// The layout changes: what the device plugin's double writes stays.
	patch := `{"status":{"capacity":{"nvidia.com/mig-3g.40gb":"1"},"allocatable":{"nvidia.com/mig-3g.40gb":"1"}}}`
	if _, err := nodes.Patch(ctx, "mig-a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Create(ctx, podWanting("waits", "1", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		n, err := nodes.Get(ctx, "mig-a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Status.Allocatable[slice]; got.String() != "1" {
			t.Fatalf("allocatable %s was overwritten: %s", slice, got.String())
		}
	}
	if err := phase("waits", corev1.PodPending, false)(); err != nil {
		t.Error(err)
	}
	if n, err := nodes.Get(ctx, "stranger", metav1.GetOptions{}); err != nil || isNodeReady(n) {
		t.Errorf("KWOK touched a node that is not its own: %v %v", n.Status.Conditions, err)
	}

	if err := pods.Delete(ctx, "server", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.For(t, patience, "server gone", func() error {
		_, err := pods.Get(ctx, "server", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there: %w", err)
	})
	await.For(t, patience, "the waiting pod gets its slice", phase("waits", corev1.PodRunning, true))

	// A broken node stays broken.
	down := `{"metadata":{"annotations":{"` + cluster.AnnotationDown + `":"xid 79"}},"status":{"conditions":[{"type":"Ready","status":"False","reason":"Broken"}]}}`
	for _, sub := range [][]string{nil, {"status"}} {
		if _, err := nodes.Patch(ctx, "mig-a", types.StrategicMergePatchType, []byte(down), metav1.PatchOptions{}, sub...); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	if n, err := nodes.Get(ctx, "mig-a", metav1.GetOptions{}); err != nil || isNodeReady(n) {
		t.Errorf("a node that is down became ready: %v", err)
	}

	// Repaired, it becomes ready again with the layout it had.
	up := `{"metadata":{"annotations":{"` + cluster.AnnotationDown + `":null}}}`
	if _, err := nodes.Patch(ctx, "mig-a", types.StrategicMergePatchType, []byte(up), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await.For(t, patience, "node repaired", func() error {
		n, err := nodes.Get(ctx, "mig-a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := n.Status.Allocatable[slice]; got.String() != "1" {
			t.Fatalf("allocatable %s was overwritten: %s", slice, got.String())
		}
		if !isNodeReady(n) {
			return errors.New("not ready")
		}
		return nil
	})
}

// ranBefore waits until a pod is ready and says whether it ran before it was: a
// moment that who looks now and then may miss on a busy machine, and a watch does not.
func ranBefore(t *testing.T, states watch.Interface, name string) (ran bool) {
	t.Helper()
	for end := time.After(patience); ; {
		select {
		case e := <-states.ResultChan():
			p, ok := e.Object.(*corev1.Pod)
			switch {
			case !ok:
				t.Fatalf("the watch ended: %v", e)
			case p.Name != name || p.Status.Phase != corev1.PodRunning:
			case isReady(p.Status.Conditions):
				return ran
			default:
				ran = true
			}
		case <-end:
			t.Fatalf("%s is not ready after %s", name, patience)
		}
	}
}

// TestIdentities: what the kubeconfigs of services may and may not do.
func TestIdentities(t *testing.T) {
	c := start(t, nil)
	ctx := t.Context()
	if _, err := client(t, c).CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "adapter"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stranger, err := c.KubeconfigFor("team:somebody", "team:readers")
	if err != nil {
		t.Fatal(err)
	}
	account, err := c.ServiceAccountKubeconfig(ctx, "default", "adapter")
	if err != nil {
		t.Fatal(err)
	}
	for path, user := range map[string]string{
		c.Kubeconfig(): "", stranger: `User "team:somebody"`, account: `User "system:serviceaccount:default:adapter"`,
	} {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if user == "" && err != nil {
			t.Errorf("the administrator: %v", err)
		}
		if user != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), user)) {
			t.Errorf("%s: want a refusal, got %v", user, err)
		}
	}
	if err := c.ReloadPrometheus(ctx, []byte("nonsense: true\n")); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("reload of a wrong configuration: %v", err)
	}
	if err := c.ReloadPrometheus(ctx, []byte(prometheusConfig)); err != nil {
		t.Error(err)
	}
	if err := c.KillProgram(cluster.Prometheus); err != nil {
		t.Error(err)
	}
	if err := c.StartProgram(ctx, cluster.Prometheus); err != nil {
		t.Error(err)
	}
	if err := c.Err(); err != nil {
		t.Errorf("a fault on purpose was reported: %v", err)
	}
}

// TestTwoSideBySide: two clusters do not meet, and Stop leaves nothing of
// one while the other goes on.
func TestTwoSideBySide(t *testing.T) {
	a, b := start(t, nil), start(t, nil)
	if _, err := client(t, a).CoreV1().Nodes().Create(t.Context(), fakeNode("only-in-a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, err := client(t, b).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("b sees %d nodes of a: %v", len(list.Items), err)
	}
	running := a.Processes().Running()
	if len(running) != 6 {
		t.Errorf("%d programs run, want 6", len(running))
	}
	begin := time.Now()
	a.Stop()
	t.Logf("stopped after %s", time.Since(begin).Round(10*time.Millisecond))
	for _, p := range running {
		if err := syscall.Kill(-p.PID(), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s is still there: %v", p.Spec.Name, err)
		}
	}
	if _, err := os.Stat(a.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if a.Err() != nil || b.Err() != nil {
		t.Errorf("stopping on purpose was reported: %v, %v", a.Err(), b.Err())
	}
	if _, err := client(t, b).Discovery().ServerVersion(); err != nil {
		t.Errorf("b does not answer any more: %v", err)
	}
}

// TestKilledChild: the user kills etcd and is told so.
func TestKilledChild(t *testing.T) {
	c := start(t, func(o *cluster.Options) { o.Prometheus = nil })
	for _, p := range c.Processes().Running() {
		if p.Spec.Name == cluster.Etcd {
			_ = syscall.Kill(p.PID(), syscall.SIGKILL)
		}
	}
	select {
	case <-c.Failed():
	case <-time.After(patience):
		t.Fatal("not reported")
	}
	err := c.Err()
	t.Log(err)
	var exit *proc.Exit
	if !errors.As(err, &exit) || exit.Name != cluster.Etcd {
		t.Fatalf("want etcd's end, got %v", err)
	}
	for _, want := range []string{"etcd was killed from outside (SIGKILL) after ", "out of memory", "etcd.log"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message lacks %q", want)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n > 16 {
		t.Errorf("message has %d lines", n)
	}
}

// TestFixedPortTaken: a port the user asked for is another's.
func TestFixedPortTaken(t *testing.T) {
	c := start(t, nil)
	var port int
	if _, err := fmt.Sscanf(c.PrometheusURL(), "http://127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	binaries, _ := build.All(t.Context(), build.Options{Out: t.Output()})
	_, err := cluster.Start(t.Context(), cluster.Options{Binaries: binaries, Parent: t.TempDir(), APIServerPort: port})
	want := fmt.Sprintf("port %d, asked for as kube-apiserver's, cannot be used: process %d (prometheus) listens on it", port, c.Processes().Find(cluster.Prometheus).PID())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v\nwant …%s…", err, want)
	}
}

// TestCancelledStart leaves nothing behind.
func TestCancelledStart(t *testing.T) {
	start(t, nil).Stop() // skips, builds
	binaries, _ := build.All(t.Context(), build.Options{Out: t.Output()})
	parent := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	if _, err := cluster.Start(ctx, cluster.Options{Binaries: binaries, Parent: parent}); err == nil {
		t.Fatal("started in spite of it")
	}
	if left, _ := os.ReadDir(parent); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func isReady(conditions []corev1.PodCondition) bool {
	for _, c := range conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func isNodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
