package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// Agent simulates one node's host software in a cluster.
type Agent struct {
	Machine *Machine
	Lock    sync.Mutex // guards Machine
	client  client.Client
	log     *slog.Logger
}

// NewAgent returns the agent of a machine. Step makes it act.
func NewAgent(m *Machine, c client.Client, log *slog.Logger) *Agent {
	return &Agent{Machine: m, client: c, log: log.With("node", m.Name())}
}

// Join hands the node over to KWOK, which simulates the kubelet's heartbeat.
func (a *Agent) Join(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.Machine.Name()}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}}`))
	if err := a.client.Patch(ctx, node, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing node %s: %w", node.Name, err)
	}
	return nil
}

// Step reads the node, the pods bound to it and the mig-parted file (nil if there is none) once. It writes
// what has changed on the node.
func (a *Agent) Step(ctx context.Context, node *corev1.Node, bound []*corev1.Pod, config []byte, now time.Time) error {
	a.Lock.Lock()
	refused := a.Machine.Sync(PodsOf(bound), now)
	a.Machine.Deploy(node.Labels, now)
	managed := a.Machine.StepManager(node.Labels[contract.ConfigLabel], config, now)
	failure := a.Machine.Failure()
	discovered := a.Machine.DiscoveryLabels()
	allocatable, capacity := a.Machine.Allocatable(now), a.Machine.Capacity(now)
	a.Lock.Unlock()

	if state, ok := managed[contract.StateLabel]; ok {
		a.log.Info("mig-manager answers", "config", node.Labels[contract.ConfigLabel], "state", state, "why", failure)
	}
	var errs []error
	for _, p := range refused {
		errs = append(errs, a.refuse(ctx, p))
	}
	errs = append(errs, a.label(ctx, node, managed, discovered), a.status(ctx, node, allocatable, capacity))
	return errors.Join(errs...)
}

// PodsOf returns the pods with devices that a kubelet still serves.
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

// refuse rejects a pod whose devices do not exist, as a kubelet does whose plugin has none of them (cm/devicemanager,
// cm/admission and rejectPod of Kubernetes 1.37.1, 2026-11-29). If it has some, only the message differs.
func (a *Agent) refuse(ctx context.Context, p Pod) error {
	a.log.Info("pod refused: its devices are not there", "pod", p.Namespace+"/"+p.Name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"uid": %q}, "status": {"phase": %q, "reason": "UnexpectedAdmissionError",
		"message": "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices, which is unexpected"}}`, p.UID, corev1.PodFailed))
	if err := a.client.Status().Patch(ctx, pod, patch); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("refusing pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// label writes the labels of mig-manager and feature discovery that differ.
func (a *Agent) label(ctx context.Context, read *corev1.Node, managed, discovered map[string]string) error {
	before, now := read.DeepCopy(), read.DeepCopy()
	maps.DeleteFunc(now.Labels, func(k, _ string) bool {
		return strings.HasPrefix(k, "nvidia.com/mig-") && strings.HasSuffix(k, ".count")
	})
	now.Labels = labels.Merge(now.Labels, labels.Merge(discovered, managed))
	for k := range managed { // always written, since the cache may be outdated
		delete(before.Labels, k)
	}
	if maps.Equal(before.Labels, now.Labels) {
		return nil
	}
	if err := a.client.Patch(ctx, now, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling node %s: %w", read.Name, err)
	}
	return nil
}

// status writes the node's devices if they differ.
func (a *Agent) status(ctx context.Context, read *corev1.Node, allocatable, capacity map[string]int) error {
	now := read.DeepCopy()
	now.Status.Allocatable = withDevices(now.Status.Allocatable, allocatable)
	now.Status.Capacity = withDevices(now.Status.Capacity, capacity)
	if equality.Semantic.DeepEqual(read.Status, now.Status) {
		return nil
	}
	if err := a.client.Status().Patch(ctx, now, client.MergeFrom(read)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of node %s: %w", read.Name, err)
	}
	return nil
}

func withDevices(list corev1.ResourceList, devices map[string]int) corev1.ResourceList {
	out := corev1.ResourceList{}
	maps.Copy(out, list)
	for name, n := range devices {
		out[corev1.ResourceName(name)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	}
	return out
}
