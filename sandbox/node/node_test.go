//go:build linux

package node_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/node/nodetest"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

const patience = 2 * time.Minute

// trial is a control plane with a real node.
type trial struct {
	*testing.T
	env       *testenv.Env
	node      *node.Node
	namespace string
}

// TestNode: a node that has ended leaves nothing on the machine. TestChart and TestGPUs test what a node
// does.
func TestNode(t *testing.T) {
	nodetest.Only(t)
	before := nodetest.Look(t)
	already := nodetest.Namespaces()
	n := nodetest.Start(t.Context(), t, nodetest.Env(t.Context(), t, testenv.Options{}), node.Options{})
	running := nodetest.Namespaces()
	for n := range already {
		delete(running, n)
	}
	if len(running) == 0 {
		t.Error("the node has no namespaces")
	}
	if err := errors.Join(n.Stop(), nodetest.Look(t).Diff(before), gone(running)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(rootOf(n.Log(node.Kubelet))); !os.IsNotExist(err) {
		t.Errorf("the node's folder is left: %v", err)
	}
}

// gone returns an error if one of the namespaces still has a process.
func gone(namespaces map[string]string) error {
	var errs []error
	for n, process := range nodetest.Namespaces() {
		if _, ours := namespaces[n]; ours {
			errs = append(errs, fmt.Errorf("namespace %s is left: %s", n, process))
		}
	}
	return errors.Join(errs...)
}

// TestNodeThatCannotStart: the error gives the reason, and nothing is left.
func TestNodeThatCannotStart(t *testing.T) {
	nodetest.Only(t)
	before := nodetest.Look(t)
	env := nodetest.Env(t.Context(), t, testenv.Options{})
	binaries, err := build.Node(t.Context(), build.Options{Out: os.Stderr})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		options node.Options
		want    []string
	}{
		"a kubelet that ends":      {node.Options{Kubelet: map[string]any{"maxPods": -1}}, []string{"kubelet ended after", "with status 1", "maxPods"}},
		"a mount without a source": {node.Options{Mounts: []node.Mount{{Source: "/nothing-here", Target: "/opt/x"}}}, []string{"/nothing-here", "no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Binaries = binaries
			n, err := node.Start(t.Context(), env.Cluster, c.options)
			if err == nil {
				_ = n.Stop()
				t.Fatal("it has started")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("lacks %q:\n%v", want, err)
				}
			}
			require.NoError(t, nodetest.Look(t).Diff(before))
		})
	}
}

// childEnv is set in the process that will be killed.
const childEnv = "GPUSCALE_TEST_KILLED"

// TestKilledSandboxLeavesNoNode kills the process that has started a node; nothing of the node is left.
func TestKilledSandboxLeavesNoNode(t *testing.T) {
	nodetest.Only(t)
	if os.Getenv(childEnv) != "" {
		env := nodetest.Env(t.Context(), t, testenv.Options{})
		n := nodetest.Start(t.Context(), t, env, node.Options{})
		fmt.Println("running", n.Log(node.Kubelet))
		select {} // until it is killed
	}
	dir, err := os.MkdirTemp("", "killed-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	before := nodetest.Look(t)
	already := nodetest.Namespaces()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledSandboxLeavesNoNode$")
	cmd.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var log string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "running %s", &log); err == nil {
			break
		}
		t.Log(lines.Text())
	}
	running := nodetest.Namespaces()
	for n := range already {
		delete(running, n)
	}
	cgroups := len(nodetest.Cgroups(cmd.Process.Pid))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if log == "" || len(running) == 0 || cgroups == 0 {
		t.Fatalf("no node ran: log %q, namespaces %v, %d cgroups", log, running, cgroups)
	}
	await.For(t, patience, "the node's end", func() error {
		err := errors.Join(gone(running), nodetest.Look(t).Diff(before))
		if left := nodetest.Cgroups(cmd.Process.Pid); len(left) > 0 {
			err = errors.Join(err, fmt.Errorf("cgroups are left: %v", left))
		}
		if _, statErr := os.Stat(rootOf(log)); !os.IsNotExist(statErr) {
			err = errors.Join(err, errors.New("the node's folder is left"), statErr)
		}
		return err
	})
}

// rootOf returns the node's root folder, from the path of a log in it.
func rootOf(log string) string { return strings.TrimSuffix(filepath.Dir(log), "/var/log") }

// with makes a subtest of a part of the test.
func (s *trial) with(test func()) func(*testing.T) {
	return func(t *testing.T) {
		was := s.T
		s.T = t
		defer func() { s.T = was }()
		test()
	}
}

// text returns a file of testdata with words replaced.
func (s *trial) text(file string, words ...string) string {
	s.Helper()
	return testenv.Text(s, filepath.Join("testdata", file), words...)
}

func (s *trial) create(file string, words ...string) {
	s.Helper()
	require.NoError(s, s.env.Create(s.Context(), s.text(file, words...)))
}

func (s *trial) pod(name string) (corev1.Pod, error) {
	var p corev1.Pod
	err := s.env.Admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &p)
	return p, err
}

// await calls done until it returns nil. It fails the test if the node ends.
func (s *trial) await(what string, done func() error) {
	s.Helper()
	await.For(s, patience, what, func() error {
		if err := s.node.Err(); err != nil {
			return await.Final(err)
		}
		return done()
	})
}

// podReady waits until a pod is ready and returns it.
func (s *trial) podReady(name string) (p corev1.Pod) {
	s.Helper()
	s.await("pod "+name, func() (err error) {
		if p, err = s.pod(name); err != nil {
			return err
		}
		if kube.PodReady(&p) {
			return nil
		}
		return fmt.Errorf("it is not Ready: %s %+v", p.Status.Phase, p.Status.ContainerStatuses)
	})
	return p
}

func (s *trial) kubectl(args ...string) (string, error) {
	out, err := exec.CommandContext(s.Context(), s.env.Binaries.Program("kubectl"), append([]string{"--kubeconfig", s.env.Cluster.Kubeconfig(), "--namespace", s.namespace}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// prints fails the test unless kubectl prints want.
func (s *trial) prints(want string, args ...string) {
	s.Helper()
	if got, err := s.kubectl(args...); err != nil || got != want {
		s.Errorf("kubectl %s prints %q, want %q: %v", strings.Join(args, " "), got, want, err)
	}
}

// podResources returns the pods that the kubelet's PodResources API lists.
func (s *trial) podResources() []*podresources.PodResources {
	s.Helper()
	conn, err := grpc.NewClient("unix://"+s.node.PodResources(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(s, err)
	defer conn.Close()
	list, err := podresources.NewPodResourcesListerClient(conn).List(s.Context(), &podresources.ListPodResourcesRequest{})
	require.NoError(s, err)
	return list.PodResources
}
