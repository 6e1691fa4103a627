package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/util/version"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Kubelet is the PodResources socket of the node's kubelet.
type Kubelet struct {
	client podresources.PodResourcesListerClient
	self   string
}

// Bounds of an answer.
const (
	kubeletTimeout = 10 * time.Second
	kubeletBytes   = 16 << 20
)

// claimDriver is NVIDIA's DRA driver. PodResources does not report the instance of a claim.
const claimDriver = "gpu.nvidia.com"

// dialKubelet returns the kubelet behind a socket; it connects on the first call. self is the
// agent's own pod, "namespace/name": a kubelet that does not list it has just been started and does
// not know its pods yet. An empty self disables that check.
func dialKubelet(socket, self string) (*Kubelet, error) {
	conn, err := grpc.NewClient("unix:"+strings.TrimPrefix(socket, "unix://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(kubeletBytes)))
	if err != nil {
		return nil, fmt.Errorf("kubelet socket %s: %w", socket, err)
	}
	return &Kubelet{podresources.NewPodResourcesListerClient(conn), self}, nil
}

// Allocations returns the pod that each NVIDIA device is allocated to. It includes pods whose process has not started
// yet, which the driver does not know.
func (k *Kubelet) Allocations(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, kubeletTimeout)
	defer cancel()
	answer, err := k.client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("reading allocations from the kubelet: %w", err)
	}
	allocated, found := map[string]string{}, k.self == ""
	for _, pod := range answer.GetPodResources() {
		name := pod.GetNamespace() + "/" + pod.GetName()
		found = found || name == k.self
		for _, c := range pod.GetContainers() {
			for _, d := range c.GetDevices() {
				addAllocation(allocated, d, name)
			}
			for _, claim := range c.GetDynamicResources() {
				for _, r := range claim.GetClaimResources() {
					if r.GetDriverName() == claimDriver {
						return nil, fmt.Errorf("%s has a device of %s by claim %s/%s: it is unknown which, so the agent changes nothing on such nodes",
							name, claimDriver, claim.GetClaimNamespace(), claim.GetClaimName())
					}
				}
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("reading allocations from the kubelet: it does not list %s, the agent's own pod, so its list is not complete yet", k.self)
	}
	return allocated, nil
}

// addAllocation adds NVIDIA devices, under any resource name that the device plugin is configured
// to advertise.
func addAllocation(allocated map[string]string, d *podresources.ContainerDevices, pod string) {
	for _, id := range d.GetDeviceIds() {
		id, _, _ = strings.Cut(id, "::") // replicas of one device
		if strings.HasPrefix(d.GetResourceName(), "nvidia.com/") || strings.HasPrefix(id, "MIG-") || strings.HasPrefix(id, "GPU-") {
			allocated[id] = pod
		}
	}
}

// Values of exporter.by.
const (
	bySocket  = "socket"
	byNothing = "none"
)

// maxReply bounds the exporter's answer, in bytes.
const maxReply = 64 << 10

// Quiesce asks the node's exporter, if there is one, to release a GPU. The exporter reacquires the GPU after d.
func (e ExporterConfig) Quiesce(ctx context.Context, gpu string, d time.Duration) error {
	return e.ask(ctx, map[string]any{"op": "quiesce", "gpus": []string{gpu}, "seconds": int(d.Seconds())})
}

// Resume asks the exporter to reacquire a GPU.
func (e ExporterConfig) Resume(ctx context.Context, gpu string) error {
	return e.ask(ctx, map[string]any{"op": "resume", "gpus": []string{gpu}})
}

// ask posts a JSON object to the exporter's unix socket, and reads its JSON reply.
func (e ExporterConfig) ask(ctx context.Context, request map[string]any) error {
	if e.By == byNothing {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.Timeout.Duration)
	defer cancel()
	text, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("asking the exporter: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://exporter/", bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("asking the exporter: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", e.Socket)
	}}}
	answer, err := client.Do(post)
	if err != nil {
		return fmt.Errorf("asking the exporter: %w (where none runs on the node: exporter.by: %s)", err, byNothing)
	}
	defer answer.Body.Close()
	return readReply(answer.Body)
}

// readReply parses the exporter's answer: nil for "done".
func readReply(text io.Reader) error {
	var reply struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	switch err := json.NewDecoder(io.LimitReader(text, maxReply)).Decode(&reply); {
	case err != nil:
		return fmt.Errorf("asking the exporter: its answer: %w", err)
	case !reply.OK:
		return fmt.Errorf("the exporter refuses: %s", reply.Error)
	}
	return nil
}

// fixedDrivers are the first versions of each branch without CVE-2026-24197: when instances change,
// an older driver may corrupt or hang the GPU for all its users. Source: flatcar/Flatcar#2155,
// 2026-06.
var fixedDrivers = []string{"535.309.01", "580.159.03", "595.71.05"}

// fixed returns why a driver must not be used to change GPUs, nil if it may. A branch newer than
// the known ones is fixed.
func fixed(driver string, more []string) error {
	if !driverVersion.MatchString(driver) {
		return fmt.Errorf("driver %q: its version cannot be parsed, so it may have CVE-2026-24197; set allowUnfixedDriver: true to use it", driver)
	}
	have, newest := version.MustParseGeneric(driver), uint(0)
	for _, text := range slices.Concat(fixedDrivers, more) {
		first := version.MustParseGeneric(text)
		if first.Major() == have.Major() && have.AtLeast(first) {
			return nil
		}
		newest = max(newest, first.Major())
	}
	if have.Major() > newest {
		return nil
	}
	return fmt.Errorf("driver %s has CVE-2026-24197 or may have it: update it (%s or newer of the branch), name it in fixedDrivers, or set allowUnfixedDriver: true",
		driver, strings.Join(fixedDrivers, ", "))
}
