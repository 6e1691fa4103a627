package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	scheduling "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	snapshots "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// fitCase is one line of standard input: a cluster, and a pod without a node.
type fitCase struct {
	Nodes      []*v1.Node                  `json:"nodes"`
	Pods       []*v1.Pod                   `json:"pods"` // bound
	Namespaces []*v1.Namespace             `json:"namespaces"`
	Claims     []*v1.PersistentVolumeClaim `json:"claims"`
	Volumes    []*v1.PersistentVolume      `json:"volumes"`
	Classes    []*storage.StorageClass     `json:"classes"`
	CSINodes   []*storage.CSINode          `json:"csiNodes"`
	// Devices, by DRA.
	DeviceClasses  []*resourcev1.DeviceClass     `json:"deviceClasses"`
	ResourceSlices []*resourcev1.ResourceSlice   `json:"resourceSlices"`
	ResourceClaims []*resourcev1.ResourceClaim   `json:"resourceClaims"`
	TaintRules     []*resourcev1.DeviceTaintRule `json:"taintRules"`
	Pod            *v1.Pod                       `json:"pod"`
}

// fitAnswer is the verdict of kube-scheduler's filters on each node.
type fitAnswer struct {
	Fits []string          `json:"fits"` // sorted
	Why  map[string]string `json:"why"`  // for the other nodes
}

// filters are the filter plugins that decide where a pod fits, and two plugins that every profile requires.
// Plugins about groups of pods are left out.
var filters = []string{
	names.PrioritySort, names.DefaultBinder,
	names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit,
	names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone, names.PodTopologySpread, names.InterPodAffinity,
	names.DynamicResources,
}

// runFit reads a case from each line of standard input, runs the real scheduler's filters in their default
// configuration, and writes one line with their answers.
func runFit() {
	klog.SetOutput(discard{})
	klog.LogToStderr(false)
	metrics.Register()
	if err := fitAll(json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func fitAll(in *json.Decoder, out *json.Encoder) error {
	config, err := latest.Default()
	if err != nil {
		return fmt.Errorf("making the default configuration: %w", err)
	}
	profile := config.Profiles[0]
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled, func(p scheduling.Plugin) bool { return !slices.Contains(filters, p.Name) })
	for in.More() {
		var c fitCase
		if err := in.Decode(&c); err != nil {
			return fmt.Errorf("reading a case: %w", err)
		}
		answer, err := c.answer(&profile)
		if err != nil {
			return fmt.Errorf("asking about pod %s: %w", c.Pod.Name, err)
		}
		if err := out.Encode(answer); err != nil {
			return fmt.Errorf("writing an answer: %w", err)
		}
	}
	return nil
}

func (c *fitCase) answer(profile *scheduling.KubeSchedulerProfile) (*fitAnswer, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client := fake.NewClientset(slices.Concat(objects(c.Nodes), objects(c.Pods), objects(c.Namespaces), objects(c.Claims), objects(c.Volumes), objects(c.Classes), objects(c.CSINodes),
		objects(c.DeviceClasses), objects(c.ResourceSlices), objects(c.ResourceClaims), objects(c.TaintRules))...)
	informed := informers.NewSharedInformerFactory(client, 0)
	snapshot := snapshots.NewSnapshot(c.Pods, c.Nodes)
	devices, synced, err := startDevices(ctx, informed, client)
	if err != nil {
		return nil, err
	}
	scheduler, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile, frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(informed), frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithSharedDRAManager(devices),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(informed.Storage().V1().CSINodes().Lister())))
	if err != nil {
		return nil, fmt.Errorf("making the framework: %w", err)
	}
	informed.Start(ctx.Done())
	informed.WaitForCacheSync(ctx.Done())
	cache.WaitFor(ctx, "devices", synced...)
	defer informed.Shutdown()
	defer stop()
	state := framework.NewCycleState()
	answer := &fitAnswer{Fits: []string{}, Why: map[string]string{}}
	only, status, _ := scheduler.RunPreFilterPlugins(ctx, state, c.Pod)
	for _, n := range c.Nodes {
		here := status
		switch {
		case !status.IsSuccess():
		case !only.AllNodes() && !only.NodeNames.Has(n.Name):
			answer.Why[n.Name] = "before the filters"
			continue
		default:
			node, err := snapshot.Get(n.Name)
			if err != nil {
				return nil, fmt.Errorf("looking up node %s: %w", n.Name, err)
			}
			here = scheduler.RunFilterPlugins(ctx, state, c.Pod, node)
		}
		switch {
		case here.IsSuccess():
			answer.Fits = append(answer.Fits, n.Name)
		case here.IsRejected():
			answer.Why[n.Name] = here.Plugin() + ": " + here.Message()
		default:
			return nil, here.AsError()
		}
	}
	slices.Sort(answer.Fits)
	return answer, nil
}

// startDevices makes the scheduler's view of devices, which follows the API as in scheduler.New.
func startDevices(ctx context.Context, informed informers.SharedInformerFactory, client kubernetes.Interface) (*dynamicresources.DefaultDRAManager, []cache.DoneChecker, error) {
	kinds := informed.Resource().V1()
	slices, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules: true, EnableConsumableCapacity: true, SliceInformer: kinds.ResourceSlices(), TaintInformer: kinds.DeviceTaintRules(), KubeClient: client,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("starting the tracker of ResourceSlices: %w", err)
	}
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), kinds.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	devices := dynamicresources.NewDRAManager(ctx, claims, slices, informed)
	byClass, err := kinds.DeviceClasses().Informer().AddEventHandler(devices.DeviceClassResolver().(cache.ResourceEventHandler))
	if err != nil {
		return nil, nil, fmt.Errorf("following DeviceClasses: %w", err)
	}
	seen := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	return devices, []cache.DoneChecker{slices.HasSyncedChecker(), seen.HasSyncedChecker(), byClass.HasSyncedChecker()}, nil
}

func objects[T runtime.Object](list []T) []runtime.Object {
	out := make([]runtime.Object, len(list))
	for i, o := range list {
		out[i] = o
	}
	return out
}
