package observe

import (
	"context"
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
)

// cluster is the API server's state, as cached.
type cluster struct {
	nodes          []corev1.Node
	pods           []*corev1.Pod
	pools          []v1alpha1.GPUNodePool
	pdbs           []policyv1.PodDisruptionBudget
	namespaces     []corev1.Namespace
	ranges         []corev1.LimitRange
	resourceQuotas []corev1.ResourceQuota
	classes        []schedulingv1.PriorityClass
	hpas           []autoscalingv2.HorizontalPodAutoscaler
	quotas         []v1alpha1.GPUQuota
	foreign        foreign.Objects
	ledger         *ledger.Ledger
	claims         *Claims
	volumes        *volumes
	config         partition.Config
	models         map[string]string // of the nodes' GPUs
	sharing
	divided
	data datasets
}

func (o *Observer) read(ctx context.Context) (*cluster, error) {
	var nodes corev1.NodeList
	var pools v1alpha1.GPUNodePoolList
	var pdbs policyv1.PodDisruptionBudgetList
	var namespaces corev1.NamespaceList
	var ranges corev1.LimitRangeList
	var resourceQuotas corev1.ResourceQuotaList
	var classes schedulingv1.PriorityClassList
	var hpas autoscalingv2.HorizontalPodAutoscalerList
	var volumeClaims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	var storage storagev1.StorageClassList
	var drivers storagev1.CSINodeList
	var quotas v1alpha1.GPUQuotaList
	var claims resourcev1.ResourceClaimList
	var templates resourcev1.ResourceClaimTemplateList
	var devices resourcev1.DeviceClassList
	for _, of := range []struct {
		what  string
		list  client.ObjectList
		maybe bool // a cluster whose API has no such kind has none
	}{
		{"nodes", &nodes, false}, {"GPUNodePools", &pools, false}, {"PodDisruptionBudgets", &pdbs, false}, {"namespaces", &namespaces, false},
		{"LimitRanges", &ranges, false}, {"ResourceQuotas", &resourceQuotas, false}, {"PriorityClasses", &classes, false},
		{"HorizontalPodAutoscalers", &hpas, false}, {"PersistentVolumeClaims", &volumeClaims, false}, {"PersistentVolumes", &volumes, false},
		{"StorageClasses", &storage, false}, {"CSINodes", &drivers, false}, {"GPUQuotas", &quotas, true}, {"ResourceClaims", &claims, true},
		{"ResourceClaimTemplates", &templates, true}, {"DeviceClasses", &devices, true},
	} {
		if err := o.o.Cluster.List(ctx, of.list, client.UnsafeDisableDeepCopy); err != nil && !(of.maybe && meta.IsNoMatchError(err)) {
			return nil, fmt.Errorf("listing %s: %w", of.what, err)
		}
	}
	pods, err := o.listPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	objects, err := o.o.Foreign()
	if err != nil {
		return nil, fmt.Errorf("reading gangs and queues: %w", err)
	}
	var cm corev1.ConfigMap
	err = o.o.Cluster.Get(ctx, o.o.ConfigMap, &cm)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("getting ConfigMap %s: %w", o.o.ConfigMap, err)
	}
	config, err := partition.ParseConfig(cm.Data[partition.ConfigKey])
	o.warn("mig-manager's config", err) // layouts that only it defines are unknown
	return &cluster{
		nodes: nodes.Items, pods: pods, pools: pools.Items, pdbs: pdbs.Items, namespaces: namespaces.Items, ranges: ranges.Items,
		resourceQuotas: resourceQuotas.Items, classes: classes.Items, hpas: hpas.Items, quotas: quotas.Items, foreign: objects,
		claims:  NewClaims(claims.Items, templates.Items, devices.Items, pods),
		volumes: newVolumes(volumeClaims.Items, volumes.Items, storage.Items, drivers.Items), config: config, models: modelsOf(nodes.Items),
		sharing: sharingOf(nodes.Items, pools.Items), divided: dividedOf(nodes.Items), data: datasetsOf(nodes.Items, pools.Items),
	}, nil
}

// listPods returns all pods. A list by the client would copy each of them in every reconcile, and
// pods are most of the cache.
func (o *Observer) listPods(ctx context.Context) ([]*corev1.Pod, error) {
	if o.o.Pods != nil {
		return o.o.Pods(ctx)
	}
	var list corev1.PodList
	if err := o.o.Cluster.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	out := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}
