package chart

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// neighbour returns the path of one of a neighbour's programs.
func (b *env) neighbour(t *testing.T, n build.Neighbour, program string) string {
	t.Helper()
	path, err := n.Program(t.Context(), build.Options{Root: b.Root, Out: os.Stderr}, program)
	require.NoError(t, err)
	return path
}

// crds installs the CRDs of a neighbour's module.
func (x *tale) crds(n build.Neighbour, files ...string) {
	x.t.Helper()
	x.must(x.InstallSources(x.t.Context(), neighbours.Source{Neighbour: n, Files: files}))
}

// beside runs a program until the test ends. If the test fails, the program's last lines are shown.
func (b *env) beside(t *testing.T, spec proc.Spec) *proc.Process {
	t.Helper()
	spec.Log = b.Cluster.LogFile(spec.Name)
	return testenv.Beside(t, spec)
}

// program runs a neighbour's program with a kubeconfig until the test ends.
func (b *env) program(t *testing.T, n build.Neighbour, program string, spec proc.Spec) *proc.Process {
	t.Helper()
	spec.Name, spec.Path = n.Name+" "+program, b.neighbour(t, n, program)
	spec.Env = append(spec.Env, "KUBECONFIG="+b.Cluster.Kubeconfig())
	return b.beside(t, spec)
}

// reinstalled runs our programs with additional Helm flags until the test ends.
func (b *env) reinstalled(t *testing.T, args ...string) {
	t.Helper()
	change := func(ctx context.Context, args ...string) error {
		return errors.Join(b.Cluster.StopProgram(adapterName), b.Cluster.StopProgram(autoscalerName), b.upgrade(ctx, args...), b.startPrograms(ctx))
	}
	t.Cleanup(func() {
		b.source = source{}
		if err := change(context.Background()); err != nil {
			t.Error(err)
		}
	})
	require.NoError(t, change(t.Context(), args...))
}

func dial(address string) error {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// port returns a port that is reserved until the test ends.
func port(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(testenv.FreePort(t))
}

// guests is the namespace of these tests' workloads. It is under no quota.
const guests = "guests"

// tale is a test beside a neighbour's programs.
type tale struct{ trouble }

// begin skips the test outside of make test-neighbours.
func begin(t *testing.T) (*tale, *env) {
	t.Helper()
	testall.Neighbours(t)
	b := start(t)
	x := &tale{trouble{env: b, t: t}}
	x.must(b.Namespace(t.Context(), guests, nil))
	return x, b
}

// nodes returns nil if a pool has this number of nodes and all are Ready.
func (x *tale) nodes(ctx context.Context, pool string, want int) error {
	var list corev1.NodeList
	if err := x.Admin.List(ctx, &list, client.MatchingLabels{v1alpha1.NodePoolLabel: pool}); err != nil {
		return err
	}
	ready := 0
	for i := range list.Items {
		if kube.NodeReady(&list.Items[i]) {
			ready++
		}
	}
	if len(list.Items) != want || ready != want {
		return fmt.Errorf("%d nodes, %d of them ready, want %d", len(list.Items), ready, want)
	}
	return nil
}

func (x *tale) pod(name string) (corev1.Pod, error) {
	var p corev1.Pod
	err := x.Admin.Get(x.t.Context(), client.ObjectKey{Namespace: guests, Name: name}, &p)
	return p, err
}

// running returns nil if all these pods run.
func (x *tale) running(names ...string) error {
	for _, name := range names {
		p, err := x.pod(name)
		if err != nil {
			return err
		}
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("%s is %s: %+v", name, p.Status.Phase, p.Status.Conditions)
		}
	}
	return nil
}

// most returns a function for the largest value that a field of an object has had since this call.
func (x *tale) most(kind schema.GroupVersionKind, name string, path ...string) func() int64 {
	x.t.Helper()
	c, err := client.NewWithWatch(x.Cluster.RESTConfig(), client.Options{})
	x.must(err)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	w, err := c.Watch(x.t.Context(), list)
	x.must(err)
	x.t.Cleanup(w.Stop)
	var most atomic.Int64
	go func() {
		for e := range w.ResultChan() {
			if u, ok := e.Object.(*unstructured.Unstructured); ok && u.GetName() == name {
				n, _, _ := unstructured.NestedInt64(u.Object, path...)
				most.Store(max(most.Load(), n))
			}
		}
	}()
	return most.Load
}
