package observe

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
)

// objects is a fake of a synced cache.
type objects []client.Object

func (all objects) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	items := reflect.ValueOf(into).Elem().FieldByName("Items")
	var of []runtime.Object
	for _, o := range all {
		if reflect.TypeOf(o).Elem() == items.Type().Elem() {
			of = append(of, o)
		}
	}
	return meta.SetList(into, of)
}

func (all objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, o := range all {
		if reflect.TypeOf(o) == reflect.TypeOf(into) && client.ObjectKeyFromObject(o) == key {
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(o).Elem())
			return nil
		}
	}
	return nil
}

// sized is a fake of the providers: each pool has the size of its spec's min.
type sized struct{}

func (sized) List(_ context.Context, p *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return pools.Listing{Target: int(p.Spec.Min)}, nil
}

func (sized) Learn(*v1alpha1.GPUNodePool, int, []*corev1.Node) pools.Learned { return pools.Learned{} }

// oddWorld has objects of every kind that is read. Pod control/a needs a node of pool control.
const oddWorld = `
{apiVersion: gpuscale.io/v1alpha1, kind: GPUNodePool, metadata: {name: control}, spec: {min: 0, max: 1000, provider: {scale: {apiVersion: v1, kind: X, name: control}}, template: {product: NVIDIA-L40S, gpus: 1, cpu: "8", memory: 64Gi, taints: [{key: control, effect: NoSchedule}]}}}
{apiVersion: v1, kind: Pod, metadata: {namespace: control, name: a, uid: control, creationTimestamp: "2026-11-21T08:59:00Z", ownerReferences: [{apiVersion: batch/v1, kind: Job, name: a, uid: j, controller: true}]}, spec: {priority: 1000000, nodeSelector: {gpuscale.io/pool: control}, tolerations: [{key: control, operator: Exists}], containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1", cpu: "1"}}}]}, status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}}
{apiVersion: v1, kind: Namespace, metadata: {name: control}}
{apiVersion: gpuscale.io/v1alpha1, kind: GPUNodePool, metadata: {name: p, generation: 2}, spec: {min: 1, max: 4, pricePerHour: "2", readyAfter: 3m, spot: true, interruptionsPerHour: "0.1", scaleDown: {idleAfter: 10m}, mig: {actuator: agent, idleAfter: 1m, bootLayout: [{3g.40gb: 2}], allowedProfiles: [3g.40gb]}, provider: {scale: {apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, namespace: x, name: p}}, template: {product: NVIDIA-H100-80GB-HBM3, gpus: 2, cpu: "32", memory: 256Gi, labels: {zone: a}, taints: [{key: team, effect: NoSchedule}], startupTaints: [{key: s, effect: NoSchedule}], resources: {rdma/hca: "4"}}}, status: {backoff: {failures: 2, untilTime: "2026-11-21T09:10:00Z"}, readyAfter: 2m}}
{apiVersion: gpuscale.io/v1alpha1, kind: GPUNodePool, metadata: {name: shared}, spec: {min: 0, max: 4, provider: {asg: {name: g, region: eu-west-1}}, template: {product: NVIDIA-A100-SXM4-80GB, gpus: 2, cpu: "32", memory: 256Gi, sharing: {strategy: time-slicing, replicas: 4, renameByDefault: true, failRequestsGreaterThanOne: true}}}}
{apiVersion: v1, kind: Node, metadata: {name: "n", uid: "n", creationTimestamp: "2026-11-21T08:00:00Z", labels: {gpuscale.io/pool: p, nvidia.com/gpu.present: "true", nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "2", nvidia.com/gpu.memory: "81559", nvidia.com/mig.strategy: mixed, nvidia.com/mig.config: halves, nvidia.com/mig.config.state: success, topology.kubernetes.io/zone: a}, annotations: {gpuscale.io/mig-layout: '{"at":"2026-11-21T08:59:00Z","node":"n","gpus":[{"index":0,"uuid":"GPU-0","model":"H100-80GB","mig":true,"instances":[{"place":"3g@0:4","uuid":"MIG-1"},{"place":"3g@4:4","uuid":"MIG-2"}]},{"index":1,"uuid":"GPU-1","model":"H100-80GB"}]}'}}, spec: {providerID: "x://y/i-1"}, status: {capacity: {nvidia.com/gpu: "1"}, allocatable: {cpu: "32", memory: 256Gi, nvidia.com/gpu: "1", nvidia.com/mig-3g.40gb: "2", rdma/hca: "4"}, conditions: [{type: Ready, status: "True"}, {type: GPUHealthy, status: "False"}]}}
{apiVersion: v1, kind: Node, metadata: {name: op, uid: op, labels: {gpuscale.io/pool: p, nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "1"}, annotations: {gpuscale.io/cordoned-by: op-1, gpuscale.io/repartition: '{"id":"op-1","gpu":0,"model":"H100-80GB","actuator":"agent","target":"3g@0:4","before":"","config":"","previous":"","expect":{},"was":{},"cordoned":true,"started":"2026-11-21T08:59:00Z","deadline":"2026-11-21T09:05:00Z"}', gpuscale.io/mig-agent: '{"id":"op-1","state":"working","at":"2026-11-21T08:59:30Z"}'}}, spec: {unschedulable: true}, status: {allocatable: {cpu: "32", memory: 256Gi}, conditions: [{type: Ready, status: "True"}]}}
{apiVersion: v1, kind: Node, metadata: {name: drained, labels: {gpuscale.io/pool: shared, nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB-SHARED, nvidia.com/gpu.count: "2", nvidia.com/gpu.replicas: "4"}, annotations: {gpuscale.io/cordoned-by: drain, gpuscale.io/drain: '{"started":"2026-11-21T08:59:00Z","deadline":"2026-11-21T09:09:00Z","reason":"NodeUnderused"}'}}, spec: {unschedulable: true}, status: {allocatable: {cpu: "32", memory: 256Gi, nvidia.com/gpu.shared: "8"}, conditions: [{type: Ready, status: "True"}]}}
{apiVersion: v1, kind: Node, metadata: {name: hami, labels: {gpuscale.io/pool: shared}, annotations: {hami.io/node-nvidia-register: '[{"id":"GPU-9","count":10,"devmem":81920,"devcore":100,"type":"NVIDIA-A100","numa":0,"health":true}]'}}, status: {allocatable: {cpu: "32", memory: 256Gi, nvidia.com/gpu: "10"}, conditions: [{type: Ready, status: "True"}]}}
{apiVersion: v1, kind: Node, metadata: {name: ack, labels: {gpuscale.io/pool: shared}}, status: {allocatable: {cpu: "32", aliyun.com/gpu-mem: "80", aliyun.com/gpu-count: "1"}, conditions: [{type: Ready, status: "True"}]}}
{apiVersion: v1, kind: Namespace, metadata: {name: team, labels: {team: a}}}
{apiVersion: v1, kind: Pod, metadata: {namespace: team, name: half, uid: h, creationTimestamp: "2026-11-21T08:00:00Z", labels: {app: x}, annotations: {gpuscale.io/evict-from: "2026-11-21T10:00:00Z", gpuscale.io/checkpoint-every: 30m}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: d-1, uid: r, controller: true}]}, spec: {nodeName: "n", priority: 5, tolerations: [{key: team, operator: Exists}], containers: [{name: c, ports: [{hostPort: 80, containerPort: 80}], resources: {requests: {cpu: "1", memory: 1Gi, nvidia.com/mig-3g.40gb: "1", rdma/hca: "1"}}}]}, status: {phase: Running, startTime: "2026-11-21T08:00:00Z"}}
{apiVersion: v1, kind: Pod, metadata: {namespace: team, name: part, uid: pp, annotations: {hami.io/vgpu-devices-allocated: "GPU-9,NVIDIA,1024,10:;"}}, spec: {nodeName: hami, initContainers: [{name: i, restartPolicy: Always, resources: {requests: {cpu: "1"}}}], containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1", nvidia.com/gpumem: "1024", nvidia.com/gpucores: "10"}}}]}, status: {phase: Running}}
{apiVersion: v1, kind: Pod, metadata: {namespace: team, name: share, uid: sh}, spec: {nodeName: drained, containers: [{name: c, resources: {requests: {nvidia.com/gpu.shared: "1"}}}]}, status: {phase: Running}}
{apiVersion: v1, kind: Pod, metadata: {namespace: team, name: waits, uid: w, creationTimestamp: "2026-11-21T08:59:00Z", labels: {app: x, scheduling.x-k8s.io/pod-group: g}}, spec: {overhead: {cpu: 100m}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: x}}, minDomains: 2}], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}, podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchExpressions: [{key: app, operator: In, values: ["y"]}]}, namespaceSelector: {matchLabels: {team: a}}}]}}, volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], tolerations: [{operator: Exists}], containers: [{name: c, resources: {requests: {nvidia.com/mig-3g.40gb: "1"}}}]}, status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}}
{apiVersion: v1, kind: Pod, metadata: {namespace: team, name: claims, uid: cl}, spec: {resourceClaims: [{name: g, resourceClaimTemplateName: tpl}, {name: h, resourceClaimName: one}], containers: [{name: c, resources: {claims: [{name: g}]}}]}, status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}}
{apiVersion: v1, kind: Pod, metadata: {namespace: team, name: js-0, uid: js, labels: {jobset.sigs.k8s.io/jobset-name: js, jobset.sigs.k8s.io/replicatedjob-name: w}}, spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}, status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}}
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {namespace: team, name: tpl}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.nvidia.com, count: 1, selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'"}}]}}]}}}}
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {namespace: team, name: one}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: mig.nvidia.com, count: 2, capacity: {requests: {memory: 10Gi}}}}], constraints: [{requests: [r], matchAttribute: gpu.nvidia.com/parentUUID}]}}, status: {reservedFor: [{resource: pods, name: claims, uid: cl}], allocation: {devices: {results: [{request: r, driver: gpu.nvidia.com, pool: "n", device: d}]}}}}
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu.nvidia.com}, spec: {extendedResourceName: example.com/gpu, selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]}}
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: mig.nvidia.com}, spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"}}]}}
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {namespace: team, name: b}, spec: {minAvailable: 1, selector: {matchLabels: {app: x}}}, status: {disruptionsAllowed: 1, expectedPods: 1, currentHealthy: 1, desiredHealthy: 1}}
{apiVersion: v1, kind: LimitRange, metadata: {namespace: team, name: l}, spec: {limits: [{type: Container, default: {cpu: "1"}, defaultRequest: {memory: 1Gi}}]}}
{apiVersion: v1, kind: ResourceQuota, metadata: {namespace: team, name: r}, spec: {hard: {requests.nvidia.com/gpu: "40", requests.cpu: "100"}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [x]}]}}, status: {hard: {requests.nvidia.com/gpu: "40", requests.cpu: "100"}, used: {requests.nvidia.com/gpu: "1", requests.cpu: "1"}}}
{apiVersion: gpuscale.io/v1alpha1, kind: GPUQuota, metadata: {name: org}, spec: {amounts: [{model: any, guaranteed: "20", limit: "40"}]}}
{apiVersion: gpuscale.io/v1alpha1, kind: GPUQuota, metadata: {name: team}, spec: {parent: org, reclaimIdle: 1h, tenants: {namespaces: [team], podSelector: {matchExpressions: [{key: app, operator: Exists}]}}, amounts: [{model: any, guaranteed: "4", limit: "30", borrowLimit: "2", lendLimit: "1"}, {model: H100-80GB, guaranteed: "1"}]}}
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: x}, value: 7, globalDefault: true}
{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: team, name: h}, spec: {minReplicas: 1, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}, status: {desiredReplicas: 3, currentReplicas: 1, lastScaleTime: "2026-11-21T08:59:00Z", conditions: [{type: ScalingActive, status: "True"}]}}
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: team, name: data}, spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}, status: {phase: Pending}}
{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}, spec: {storageClassName: local, accessModes: [ReadWriteOnce], capacity: {storage: 2Gi}, csi: {driver: d, volumeHandle: x}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.gke.io/zone, operator: In, values: [a]}]}]}}}, status: {phase: Available}}
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: local}, provisioner: d, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [a]}]}]}
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: "n"}, spec: {drivers: [{name: d, nodeID: "n", allocatable: {count: 3}}]}}
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: gpu-operator, name: gpuscale-mig-config}, data: {config.yaml: "version: v1\nmig-configs: {halves: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]}"}}
{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: team, name: d}, spec: {replicas: 1, template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}}
{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {namespace: team, name: js, uid: s, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: zone}}, spec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 2, completions: 2, template: {spec: {overhead: {cpu: "1"}, resources: {requests: {cpu: "2"}}, containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1", cpu: "1", rdma/hca: "1"}}}]}}}}}]}, status: {replicatedJobsStatus: [{name: w, succeeded: 0}]}}
{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {namespace: team, name: lws, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: zone}}, spec: {replicas: 2, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}}}}}
{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {namespace: team, name: g}, spec: {minMember: 2, minResources: {nvidia.com/gpu: "2"}}}
{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {namespace: team, name: v}, spec: {minMember: 2, queue: q, minResources: {nvidia.com/gpu: "2", cpu: "1"}}}
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}, spec: {parent: root, capability: {nvidia.com/gpu: "8"}, deserved: {nvidia.com/gpu: "4"}, guarantee: {resource: {nvidia.com/gpu: "2"}}}}
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: k}, spec: {parentQueue: kk, resources: {gpu: {quota: 2, limit: -1}}}}
{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {namespace: team, name: wl, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: a, uid: j, controller: true}]}, spec: {queueName: lq, priority: 3, podSets: [{name: main, count: 3, minCount: 2, topologyRequest: {required: zone}, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}}}]}, status: {conditions: [{type: QuotaReserved, status: "True", lastTransitionTime: "2026-11-21T08:59:00Z"}], admission: {clusterQueue: cq, podSetAssignments: [{name: main, count: 3, flavors: {nvidia.com/gpu: f}}]}, reclaimablePods: [{name: main, count: 1}]}}
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: cq}, spec: {cohortName: co, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 30, borrowingLimit: 2, lendingLimit: 1}]}]}]}}
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {namespace: team, name: lq}, spec: {clusterQueue: cq}}
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}, spec: {nodeLabels: {zone: a}, tolerations: [{operator: Exists}]}}
{apiVersion: autoscaling.x-k8s.io/v1, kind: ProvisioningRequest, metadata: {namespace: team, name: pr}, spec: {provisioningClassName: best-effort-atomic-scale-up.autoscaling.x-k8s.io, podSets: [{count: 2, podTemplateRef: {name: pt}}], parameters: {ValidUntilSeconds: "60"}}}
{apiVersion: v1, kind: PodTemplate, metadata: {namespace: team, name: pt}, template: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}}}
`

// control are the first lines of oddWorld, which stay as they are.
const control = 3

// endless is a quantity that apimachinery 0.37 does not end comparing. The API server does not store it in its own
// kinds; TestAbsurdAmounts has it for those of others.
const endless = "1e999999999"

// oddValues are what a field is replaced with.
var oddValues = []any{nil, "", "x", "-1", "0", "1e30", "-1e30", "9999999999999999999", "-5m", "2026-13-40T00:00:00Z", "a/b/c", strings.Repeat("y", 300),
	-1, 0, 1 << 31, int64(1) << 62, -(int64(1) << 62), 0.5, 1e300, true, false, []any{}, []any{nil}, []any{map[string]any{}}, map[string]any{}, map[string]any{"": "", "x": "-1"}}

// spoil replaces a random part of a value and returns it, and where.
func spoil(r *rand.Rand, v any, odd []any) (any, string) {
	switch of := v.(type) {
	case map[string]any:
		if len(of) > 0 && r.IntN(12) > 0 {
			keys := make([]string, 0, len(of))
			for key := range of {
				keys = append(keys, key)
			}
			slices.Sort(keys)
			key := keys[r.IntN(len(keys))]
			part, at := spoil(r, of[key], odd)
			of[key] = part
			return of, "." + key + at
		}
	case []any:
		if len(of) > 0 && r.IntN(12) > 0 {
			i := r.IntN(len(of))
			if r.IntN(6) == 0 {
				return append(of, of[i]), fmt.Sprintf("[%d] twice", i)
			}
			part, at := spoil(r, of[i], odd)
			of[i] = part
			return of, fmt.Sprintf("[%d]%s", i, at)
		}
	case string:
		if strings.HasPrefix(of, "{") || strings.HasPrefix(of, "[") { // JSON in an annotation
			var inner any
			if json.Unmarshal([]byte(of), &inner) == nil && r.IntN(12) > 0 {
				inner, at := spoil(r, inner, odd)
				text, _ := json.Marshal(inner)
				return string(text), at
			}
		}
	}
	value := odd[r.IntN(len(odd))]
	return value, fmt.Sprintf(" = %.40v", value)
}

// FuzzOneOddObject: whatever is in a few objects, the cluster is observed, and what does not pass the planner's
// check can be set apart. A pod that has nothing to do with them gets its node.
func FuzzOneOddObject(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	var whole []unstructured.Unstructured
	var read []any // *foreign.Object, or a typed object
	parse := func(u *unstructured.Unstructured, gvk schema.GroupVersionKind) (any, error) {
		typed, err := kinds.New(gvk)
		if err != nil || gvk.Kind == "PodTemplate" || gvk.Kind == "Deployment" {
			plural, _ := meta.UnsafeGuessKindToResource(gvk)
			return foreign.Parse(foreign.Kind(plural.GroupResource().String()), u), nil
		}
		text, err := json.Marshal(u.Object)
		if err == nil {
			err = json.Unmarshal(text, typed)
		}
		return typed, err
	}
	for line := range strings.SplitSeq(strings.TrimSpace(oddWorld), "\n") {
		var u unstructured.Unstructured
		err := yaml.Unmarshal([]byte(line), &u.Object)
		if err == nil {
			var o any
			if o, err = parse(&u, u.GroupVersionKind()); err == nil {
				whole, read = append(whole, u), append(read, o)
				continue
			}
		}
		f.Fatalf("%v in %s", err, line)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		var typed objects
		others := foreign.Objects{}
		odd := map[int]bool{}
		for seed > 0 && len(odd) < 1+int(seed%3) {
			odd[control+r.IntN(len(whole)-control)] = true
		}
		var did []string
		for i := range whole {
			object := read[i]
			if odd[i] {
				u, gvk := whole[i].DeepCopy(), whole[i].GroupVersionKind()
				delete(u.Object, "apiVersion")
				delete(u.Object, "kind")
				values := oddValues
				if gvk.Group == v1alpha1.GroupVersion.Group {
					values = append(slices.Clip(oddValues), endless)
				}
				_, at := spoil(r, u.Object, values)
				did = append(did, gvk.Kind+" "+whole[i].GetName()+at)
				u.SetGroupVersionKind(gvk)
				var err error
				if object, err = parse(u, gvk); err != nil {
					continue // no such object reaches the cache
				}
			}
			switch o := object.(type) {
			case *foreign.Object:
				others[o.Kind] = append(others[o.Kind], o)
			case client.Object:
				typed = append(typed, o)
			}
		}
		o := New(Options{
			Cluster: typed, Pools: sized{}, ConfigMap: partition.DefaultConfigMap, Log: slog.New(slog.DiscardHandler),
			Readings: func() *Readings { return oddReadings(r) },
			Foreign: func() (foreign.Objects, error) {
				return others.Resolve([]string{foreign.AtomicScaleUp, foreign.CheckCapacity}), nil
			},
		})
		for range 2 {
			out, err := o.Observe(t.Context(), start)
			if err != nil {
				t.Fatalf("%q: %v", did, err)
			}
			snapshot, problems := out.Contain()
			if err := snapshot.Check(); err != nil {
				t.Fatalf("%q: set apart %v, and still: %v", did, problems, err)
			}
			if seed == 0 && (len(problems) > 0 || len(out.Invalid) > 0) {
				t.Fatalf("the world by itself: %v, %v", problems, out.Invalid)
			}
			made := plan.Make(snapshot, plan.DefaultPolicy())
			if !slices.ContainsFunc(made.Verdicts, func(v plan.Verdict) bool {
				return v.Subject == "control/a" && v.Reason == plan.WaitUpcomingNode
			}) {
				t.Fatalf("%q: control/a gets no node: %v\n%v\n%.3000s", did, problems, out.Invalid, made)
			}
		}
	})
}

// oddReadings are series about node n, of which some have odd values and labels.
func oddReadings(r *rand.Rand) *Readings {
	a := twoHalves(1, "a")
	a.Info = append(a.Info, series(1, "node", "n", "gpu", "1", "gpu_uuid", "GPU-1", "model", "NVIDIA H100 80GB HBM3", "mig", "false"))
	for _, v := range []*prom.Vector{&a.Info, &a.InstanceInfo, &a.Allocated, &a.Age} {
		for i := range *v {
			if r.IntN(8) == 0 {
				labels := (*v)[i].Labels.Map()
				labels[[]string{"gpu", "node", "gpu_uuid", "model", "mig", "profile", "start", "gpu_instance_id"}[r.IntN(8)]] = []string{"", "x", "-1", "1", "64", "7", "NVIDIA L4", "1g.10gb", "true"}[r.IntN(9)]
				(*v)[i] = prom.Sample{Labels: prom.FromMap(labels), Value: []float64{0, 1, -1, 1e300}[r.IntN(4)], Time: start}
			}
		}
	}
	return NewReadings(start.Add(-time.Second), a)
}
