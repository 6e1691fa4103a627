package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// Agent plays one node's host software in a cluster.
type Agent struct {
	Machine *Machine
	Lock    sync.Mutex // guards Machine
	client  kubernetes.Interface
	log     *slog.Logger
}

// NewAgent returns the agent of a machine. Step makes it act.
func NewAgent(m *Machine, client kubernetes.Interface, log *slog.Logger) *Agent {
	return &Agent{Machine: m, client: client, log: log.With("node", m.Name())}
}

// Join hands the node to KWOK, which plays its kubelet's heartbeat.
func (a *Agent) Join(ctx context.Context) error {
	return a.patch(ctx, a.Machine.Name(), map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kwok.x-k8s.io/node": "fake"}}})
}

// Step looks at the node once, at the pods bound to it and at the mig-parted file (nil:
// none), and writes what has changed on the node.
func (a *Agent) Step(ctx context.Context, node *corev1.Node, bound []*corev1.Pod, config []byte, now time.Time) error {
	a.Lock.Lock()
	refused := a.Machine.Sync(PodsOf(bound), now)
	a.Machine.Deploy(node.Labels, now)
	labels := a.Machine.StepManager(node.Labels[contract.ConfigLabel], config, now)
	failure := a.Machine.Failure()
	discovered := a.Machine.DiscoveryLabels()
	allocatable, capacity := a.Machine.Allocatable(now), a.Machine.Capacity()
	a.Lock.Unlock()

	if state, ok := labels[contract.StateLabel]; ok {
		a.log.Info("mig-manager answers", "config", node.Labels[contract.ConfigLabel], "state", state, "why", failure)
	}
	var errs []error
	for _, p := range refused {
		errs = append(errs, a.refuse(ctx, p))
	}
	errs = append(errs, a.label(ctx, node, labels, discovered), a.status(ctx, node, allocatable, capacity))
	return errors.Join(errs...)
}

// PodsOf are the pods with devices that a kubelet still serves.
func PodsOf(all []*corev1.Pod) (pods []Pod) {
	for _, p := range all {
		if kube.IsOver(p) {
			continue
		}
		pod := Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Created: p.CreationTimestamp.Time}
		for _, c := range p.Spec.Containers {
			requests := map[string]int{}
			for name, q := range c.Resources.Limits {
				if strings.HasPrefix(string(name), "nvidia.com/") && q.Value() > 0 {
					requests[string(name)] = int(q.Value())
				}
			}
			if len(requests) > 0 {
				pod.Containers = append(pod.Containers, Container{Name: c.Name, Requests: requests})
			}
		}
		if len(pod.Containers) > 0 {
			pods = append(pods, pod)
		}
	}
	return pods
}

// refuse a pod whose devices are not there, as a kubelet does.
func (a *Agent) refuse(ctx context.Context, p Pod) error {
	a.log.Info("pod refused: its devices are not there", "pod", p.Namespace+"/"+p.Name)
	patch := map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status": map[string]any{
			"phase": corev1.PodFailed, "reason": "UnexpectedAdmissionError",
			"message": "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices",
		},
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("refusing pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	_, err = a.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("refusing pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// label writes what mig-manager and feature discovery say, where it differs.
func (a *Agent) label(ctx context.Context, node *corev1.Node, managed, discovered map[string]string) error {
	change := map[string]any{}
	for k, v := range discovered {
		if node.Labels[k] != v {
			change[k] = v
		}
	}
	for k := range node.Labels {
		if _, ok := discovered[k]; !ok && strings.HasPrefix(k, "nvidia.com/mig-") && strings.HasSuffix(k, ".count") {
			change[k] = nil
		}
	}
	for k, v := range managed { // always, since the cache may be old
		change[k] = v
	}
	if len(change) == 0 {
		return nil
	}
	return a.patch(ctx, node.Name, map[string]any{"metadata": map[string]any{"labels": change}})
}

// status writes the devices a node has, where they differ.
func (a *Agent) status(ctx context.Context, node *corev1.Node, allocatable, capacity map[string]int) error {
	status := map[string]any{}
	for field, now := range map[string]struct {
		have corev1.ResourceList
		want map[string]int
	}{"allocatable": {node.Status.Allocatable, allocatable}, "capacity": {node.Status.Capacity, capacity}} {
		change := map[string]any{}
		for resource, n := range now.want {
			if q, ok := now.have[corev1.ResourceName(resource)]; !ok || q.Value() != int64(n) {
				change[resource] = strconv.Itoa(n)
			}
		}
		if len(change) > 0 {
			status[field] = change
		}
	}
	if len(status) == 0 {
		return nil
	}
	return a.patch(ctx, node.Name, map[string]any{"status": status}, "status")
}

func (a *Agent) patch(ctx context.Context, name string, patch map[string]any, sub ...string) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("writing node %s: %w", name, err)
	}
	_, err = a.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, sub...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing node %s: %w", name, err)
	}
	return nil
}
