package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gpuscale-exporter": main, "gpuscale-real-table": realTableMain})
}

// built returns a compiled fake's folder; it skips the test on a machine without a compiler.
func built(t testing.TB, lib string, err error) string {
	t.Helper()
	if errors.Is(err, fakenvml.ErrNoCompiler) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return lib
}

func fakeDCGM(t testing.TB) string {
	lib, err := fakedcgm.Build(t.Context(), "")
	return built(t, lib, err)
}

func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Condition: func(c string) (bool, error) {
		return c == "dcgm" && installed("libdcgm.so.4"), nil
	}})
}

// mixedPods have the instance and the GPU of testdata/mixed.yaml.
type mixedPods struct {
	podresources.UnimplementedPodResourcesListerServer
}

func (mixedPods) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	pod := func(namespace, name, resource, id string) *podresources.PodResources {
		return &podresources.PodResources{Namespace: namespace, Name: name, Containers: []*podresources.ContainerResources{{
			Name: "main", Devices: []*podresources.ContainerDevices{{ResourceName: resource, DeviceIds: []string{id}}},
		}}}
	}
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{
		pod("chat", "vllm-0", "nvidia.com/mig-3g.40gb", "MIG-11111111-0000-0000-0000-000000000000"),
		pod("batch", "train-0", "nvidia.com/gpu", "GPU-bbbbbbbb-0000-0000-0000-000000000000"),
	}}, nil
}

func serveKubelet(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "kubelet.sock")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, mixedPods{})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return socket
}

// exporter is one that runs as a process.
type exporter struct {
	*os.Process
	base  string
	ended <-chan struct{} // closed when it has ended, with err
	err   error
	log   *bytes.Buffer // until it served
}

// start runs the exporter until it serves. Its environment is the test's.
func start(t testing.TB, args ...string) *exporter {
	t.Helper()
	cmd := exec.Command("gpuscale-exporter", append(args, "-a", "127.0.0.1:0")...)
	cmd.Env = append(os.Environ(), "NODE_NAME=node-1")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	e := &exporter{Process: cmd.Process, ended: ended, log: &bytes.Buffer{}}
	serving := regexp.MustCompile(`msg=serving address=(\S+)`)
	lines := bufio.NewReader(stderr)
	for e.base == "" {
		line, err := lines.ReadString('\n')
		e.log.WriteString(line)
		if m := serving.FindStringSubmatch(line); m != nil {
			e.base = "http://" + m[1]
		} else if err != nil {
			t.Fatalf("the exporter ended before it served: %v\n%s", cmd.Wait(), e.log)
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		e.err = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() { _ = e.Kill(); <-ended })
	return e
}

// terminate sends SIGTERM and checks that the exporter ends without an error.
func (e *exporter) terminate(t *testing.T) {
	t.Helper()
	require.NoError(t, e.Signal(syscall.SIGTERM))
	select {
	case <-e.ended:
		if e.err != nil {
			t.Errorf("after SIGTERM: %v", e.err)
		}
	case <-time.After(time.Minute):
		t.Error("SIGTERM does not end it")
	}
}

func until(t testing.TB, what string, ok func() (bool, string)) {
	t.Helper()
	await.For(t, time.Minute, what, func() error {
		done, seen := ok()
		if !done {
			return fmt.Errorf("last seen:\n%s", seen)
		}
		return nil
	})
}

// has waits for a page with each of the texts.
func (e *exporter) has(t *testing.T, wants ...string) {
	t.Helper()
	for _, want := range wants {
		until(t, want, func() (bool, string) {
			_, body := get(t, e.base+"/metrics")
			return strings.Contains(body, want), body
		})
	}
}

func (e *exporter) notReady(t *testing.T, why string) {
	t.Helper()
	until(t, "not ready: "+why, func() (bool, string) {
		code, output := get(t, e.base+"/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(output, why), output
	})
}

func get(t testing.TB, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}
