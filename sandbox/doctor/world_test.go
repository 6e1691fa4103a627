package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

// product100 is what the nodes of pool whole have.
const product100 = "NVIDIA-H100-80GB-HBM3"

// A node without cards, for all that needs none.
const cpuNode = `
apiVersion: v1
kind: Node
metadata:
  name: cpu-1
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: cpu-1, kubernetes.io/os: linux, kubernetes.io/arch: amd64}
status:
  capacity: {cpu: "64", memory: 256Gi, pods: "110"}
  allocatable: {cpu: "64", memory: 256Gi, pods: "110"}
`

// normalWorld is a small cluster in order: a pool of whole cards and one of sliced
// ones, a team with a quota, and a server that an HPA follows.
const normalWorld = `
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: whole}
spec:
  min: 1
  max: 3
  provider: {kwok: {}}
  template: {product: NVIDIA-H100-80GB-HBM3, cards: 2, cpu: "64", memory: 512Gi}
---
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: sliced}
spec:
  min: 1
  max: 2
  provider: {kwok: {}}
  template: {product: NVIDIA-A100-SXM4-80GB, cards: 1, cpu: "32", memory: 256Gi}
  mig: {actuator: mig-manager, bootLayout: [{1g.10gb: 7}]}
---
apiVersion: gpuscale.io/v1alpha1
kind: GPUQuota
metadata: {name: team}
spec:
  tenants: {namespaces: [team]}
  amounts: [{model: any, guaranteed: 2, limit: 4}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: embed, namespace: team}
spec:
  replicas: 1
  selector: {matchLabels: {app: embed}}
  template:
    metadata: {labels: {app: embed}}
    spec:
      containers:
      - name: server
        image: server
        resources: {limits: {nvidia.com/gpu: "1", cpu: "1", memory: 1Gi}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: embed, namespace: team}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: embed}
  minReplicas: 1
  maxReplicas: 2
  metrics:
  - type: Pods
    pods:
      metric: {name: gpu_busy}
      target: {type: AverageValue, averageValue: 500m}
`

// herds is a resource with a scale subresource, which a pool may name as its maker.
const herds = "../neighbours/testdata/herd.yaml"

func (b *bed) populate(ctx context.Context) error {
	if err := neighbours.Apply(ctx, b.admin, herds); err != nil {
		return err
	}
	for _, text := range []string{cpuNode, normalWorld} {
		objects, err := neighbours.Parse([]byte(text))
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := b.create(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// create an object once its kind is served.
func (b *bed) create(ctx context.Context, o *unstructured.Unstructured) error {
	return until(ctx, "creating "+o.GetKind()+" "+o.GetName(), func() error {
		err := b.admin.Create(ctx, o.DeepCopy())
		if err == nil || meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return err
		}
		return fatal{err}
	})
}

// settle waits until all of it runs, and then keeps what doctor says of it.
func (b *bed) settle(ctx context.Context) error {
	if err := until(ctx, "waiting for the world", func() error {
		return errors.Join(b.fleet.err(), b.sliced(ctx), b.rolledOut(ctx), b.following(ctx))
	}); err != nil {
		return err
	}
	kubeconfig, err := b.mine()
	if err != nil {
		return err
	}
	// Some of what doctor looks at needs a few scrapes and rounds. Whatever it still
	// says after that is for TestHealthy to judge.
	begin, said := time.Now(), ""
	for {
		if b.normal, err = b.ask(ctx, kubeconfig); err != nil {
			return err
		}
		if b.normal.Faults+b.normal.Warnings == 0 && b.normal.Unknown <= len(unknownHere) || time.Since(begin) > settleFor {
			return nil
		}
		if now := strings.Join(b.normal.worse(visit{}), "; "); now != said {
			said = now
			fmt.Fprintf(os.Stderr, "after %s doctor says: %s\n", time.Since(begin).Round(100*time.Millisecond), said)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// settleFor bounds how long doctor is asked again until it has nothing to say.
const settleFor = 45 * time.Second

// sliced says that the node of MIG cards is there, and does what mig-manager would
// have done when it booted: the layout that the label asks for is there.
func (b *bed) sliced(ctx context.Context) error {
	var list corev1.NodeList
	if err := b.admin.List(ctx, &list, client.HasLabels{v1alpha1.NodePoolLabel}); err != nil {
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
		if err := b.admin.Patch(ctx, n, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	if pools["whole"] != 1 || pools["sliced"] != 1 {
		return fmt.Errorf("nodes of pools: %v", pools)
	}
	return nil
}

// following says that the HPA has read its metric.
func (b *bed) following(ctx context.Context) error {
	var h autoscalingv2.HorizontalPodAutoscaler
	if err := b.admin.Get(ctx, client.ObjectKey{Namespace: "team", Name: "embed"}, &h); err != nil {
		return err
	}
	if !slices.ContainsFunc(h.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionTrue
	}) {
		return fmt.Errorf("the HPA: %+v", h.Status.Conditions)
	}
	return nil
}

// fatal ends waiting.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// kindOf is an object of a kind, by "apiVersion/Kind": "apps/v1/Deployment".
func kindOf(kind, namespace, name string) *unstructured.Unstructured {
	at := strings.LastIndexByte(kind, '/')
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(kind[:at])
	u.SetKind(kind[at+1:])
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}
