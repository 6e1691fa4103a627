package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/internal/await"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gpuscale-exporter": main})
}

func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}

// mixedPods hold the instance and the card of testdata/mixed.txt.
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
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, mixedPods{})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return socket
}

// started is an exporter that runs. Its end may be waited for by several.
type started struct {
	Process *os.Process
	Wait    func() error
}

// start runs the exporter as a process and returns its base URL.
func start(t *testing.T, args ...string) (started, string) {
	t.Helper()
	cmd := exec.Command("gpuscale-exporter", append(args, "-a", "127.0.0.1:0")...)
	cmd.Env = append(os.Environ(), "NODE_NAME=node-1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	running := started{cmd.Process, sync.OnceValue(cmd.Wait)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = running.Wait()
	})
	address := make(chan string, 1)
	go func() {
		serving := regexp.MustCompile(`msg=serving address=(\S+)`)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := serving.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
		}
		close(address)
	}()
	a, ok := <-address
	if !ok {
		t.Fatal("the exporter ended before it served")
	}
	return running, "http://" + a
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestProcess(t *testing.T) {
	// One dash before a long flag is how many dcgm-exporter manifests have it. With this
	// interval the first reading stays fresh for as long as the test looks at it.
	cmd, base := start(t, "--replay", "testdata/mixed.txt", "-collect-interval", "60000", "-k",
		"--pod-resources-kubelet-socket", serveKubelet(t))
	await.True(t, time.Minute, "ready", func() bool {
		code, _ := get(t, base+"/readyz")
		return code == http.StatusOK
	})
	_, body := get(t, base+"/metrics")
	for _, want := range []string{
		`gpu_held{node="node-1",gpu="0",gpu_uuid="GPU-aaaaaaaa-0000-0000-0000-000000000000",namespace="chat",pod="vllm-0",container="main",gpu_instance_id="1",profile="3g.40gb"} 1`,
		`gpu_busy_ratio{node="node-1",gpu="1",gpu_uuid="GPU-bbbbbbbb-0000-0000-0000-000000000000",model="NVIDIA L40S",namespace="batch",pod="train-0",container="main"} 0.37`,
		`hostname="node-1",DCGM_FI_DRIVER_VERSION="580.65.06",container="main",namespace="batch",pod="train-0"} 37`,
		`gpuscale_exporter_source_up 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("lacks %s:\n%s", want, body)
		}
	}
	for _, path := range []string{"/", "/health", "/livez"} {
		if code, _ := get(t, base+path); code != http.StatusOK {
			t.Errorf("%s = %d", path, code)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("SIGTERM does not end it")
	}
}
