package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// product100 is the GPU product of the nodes in pool "whole".
const product100 = "NVIDIA-H100-80GB-HBM3"

// populate creates the pools and workloads, and a resource with a scale subresource that a pool can use as
// its provider.
func (b *env) populate(ctx context.Context) error {
	if err := neighbours.Apply(ctx, b.Admin, "../neighbours/testdata/herd.yaml"); err != nil {
		return err
	}
	text, err := os.ReadFile("testdata/world.yaml")
	if err != nil {
		return err
	}
	return b.Create(ctx, string(text))
}

// settle waits until everything runs, and then keeps doctor's report.
func (b *env) settle(ctx context.Context) error {
	if err := until(ctx, "waiting for the world", func() error {
		return errors.Join(b.fleet.err(), b.sliced(ctx), b.rolledOut(ctx), b.following(ctx))
	}); err != nil {
		return err
	}
	kubeconfig, err := b.mine()
	if err != nil {
		return err
	}
	// Some checks require a few scrapes and reconciles. TestHealthy checks what remains after that.
	ctx, cancel := context.WithTimeout(ctx, testenv.Patience)
	defer cancel()
	last := ""
	err = until(ctx, "asking doctor", func() (err error) {
		if b.normal, err = b.ask(ctx, kubeconfig); err != nil {
			return await.Final(err)
		}
		if b.normal.Faults+b.normal.Warnings+b.normal.Unknown == 0 {
			return nil
		}
		if now := strings.Join(b.normal.worse(visit{}), "; "); now != last {
			last = now
			fmt.Fprintln(os.Stderr, "doctor reports:", last)
		}
		return errNotYet
	})
	if errors.Is(err, errNotYet) {
		return nil
	}
	return err
}

// sliced returns nil once the node with MIG GPUs exists. It also does what mig-manager does at boot: it
// reports that the layout in the label is applied.
func (b *env) sliced(ctx context.Context) error {
	var list corev1.NodeList
	if err := b.Admin.List(ctx, &list, client.HasLabels{v1alpha1.NodePoolLabel}); err != nil {
		return err
	}
	pools := map[string]int{}
	for i := range list.Items {
		n := &list.Items[i]
		pools[n.Labels[v1alpha1.NodePoolLabel]]++
		if n.Labels["nvidia.com/mig.config"] == "" || n.Labels["nvidia.com/mig.config.state"] != "" {
			continue
		}
		before := n.DeepCopy()
		n.Labels["nvidia.com/mig.config.state"] = "success"
		if err := b.Admin.Patch(ctx, n, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	if pools["whole"] != 1 || pools["sliced"] != 1 {
		return fmt.Errorf("nodes of pools: %v", pools)
	}
	return nil
}

// following returns nil once the HPA has read its metric.
func (b *env) following(ctx context.Context) error {
	var h autoscalingv2.HorizontalPodAutoscaler
	if err := b.Admin.Get(ctx, client.ObjectKey{Namespace: "team", Name: "embed"}, &h); err != nil {
		return err
	}
	if !slices.ContainsFunc(h.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionTrue
	}) {
		return fmt.Errorf("the HPA: %+v", h.Status.Conditions)
	}
	return nil
}
