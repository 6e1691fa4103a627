package observe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// A demand is a number of GPUs, MIG devices or parts of GPUs. Claims may require more: devices with enough memory,
// devices of one NVLink domain, or a network adapter beside each device. For such claims kube-scheduler's own allocator
// decides which nodes have devices, and which pools do, by their newest node. The answer is a label with
// plan.AllocatesClaims and a hash of the claims, set on the nodes and pools that have no devices for the claims.

const (
	allocatesNot = "no" // value of the label
	// allocationTime bounds the time of the allocator in a reconcile, allocationTimeOfNode its time for one node and
	// one set of claims: its search is exhaustive. Nodes and pools that are not decided by then are not labelled.
	allocationTime, allocationTimeOfNode = 2 * time.Second, 100 * time.Millisecond
	mostAsked                            = 50 // different claims of a namespace's pods
)

// allocatorFeatures are the features that are on by default in kube-scheduler 1.37. Where a cluster lacks one, its API
// server refuses claims that use it.
var allocatorFeatures = structured.Features{
	AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true, FractionalCapacityRange: true,
	PartitionableDevices: true, PrioritizedList: true,
}

// mostExpressions bounds the cache of compiled expressions.
const mostExpressions = 100

// required returns what a pending pod's claims require of a node beside their demand: it has devices for the claims
// that are not allocated, and it reaches the devices of those that are.
func (c *Claims) required(p *corev1.Pod) (out [][]plan.NodeTerm, err error) {
	if p.Spec.NodeName != "" {
		return nil, nil
	}
	var open []*resourcev1.ResourceClaim
	more := false
	for i := range p.Spec.ResourceClaims {
		claim, err := c.claimOf(p, &p.Spec.ResourceClaims[i])
		switch {
		case err != nil || claim == nil: // an error has made the pod unreadable
		case claim.Status.Allocation == nil:
			if err := c.besideAdmin(p, &claim.Spec.Devices); err != nil {
				return nil, fmt.Errorf("resource claim %s: %w", p.Spec.ResourceClaims[i].Name, err)
			}
			open, more = append(open, claim), more || c.requiresMore(&claim.Spec.Devices)
		case claim.Status.Allocation.NodeSelector != nil: // where the pod does not fit and no other pod uses the claim, the scheduler deallocates it
			out = append(out, nodeTerms(claim.Status.Allocation.NodeSelector.NodeSelectorTerms))
		}
	}
	if !more {
		return out, nil
	}
	for i := range open {
		open[i] = &resourcev1.ResourceClaim{Spec: open[i].Spec}
	}
	text, _ := json.Marshal(open)
	sum := sha256.Sum256(text)
	key := plan.AllocatesClaims + hex.EncodeToString(sum[:10]) // 80 bits: another tenant cannot make claims with the same key
	if c.asked[key] == nil {
		if c.asking[p.Namespace]++; c.asking[p.Namespace] > mostAsked {
			return nil, fmt.Errorf("pods of namespace %s have more than %d different claims with requirements on devices beyond their number", p.Namespace, mostAsked)
		}
	}
	c.asked[key] = open
	return append(out, requiring(key, corev1.NodeSelectorOpNotIn, allocatesNot)), nil
}

// besideAdmin returns an error if a claim has admin access to devices that the pod requests by an extended resource, too.
// kube-scheduler allocates the claim that it makes for extended resources last, and counts the devices of the claims before
// it as in use, those of admin access too (dynamic-resource-allocation 0.37.1, structured/internal: deviceInUse). So it
// binds the pod to no node, or only to one with more devices than the pod requests.
func (c *Claims) besideAdmin(p *corev1.Pod, of *resourcev1.DeviceClaim) error {
	requests := kube.ExtendedRequests(p)
	for _, r := range of.Requests {
		if r.Exactly == nil || !ptr.Deref(r.Exactly.AdminAccess, false) {
			continue
		}
		watched, _ := c.devicesOf(r.Exactly.DeviceClassName, nil)
		for _, name := range slices.Sorted(maps.Keys(requests)) {
			class := c.serving(name)
			if class == nil || requests[name] <= 0 {
				continue
			}
			if d, _ := c.devicesOf(class.Name, nil); d.Driver != "" && d.Driver == watched.Driver {
				return fmt.Errorf("request %s: kube-scheduler allocates no %s on devices of %s to which the pod has admin access: request the devices by a claim before this one", r.Name, name, d.Driver)
			}
		}
	}
	return nil
}

// requiresMore reports whether a claim requires more of devices than its demand says.
func (c *Claims) requiresMore(of *resourcev1.DeviceClaim) bool {
	return len(of.Constraints) > 0 || slices.ContainsFunc(of.Requests, func(r resourcev1.DeviceRequest) bool {
		return slices.ContainsFunc(alternatives(&r), func(a alternative) bool {
			class := c.classes[a.DeviceClassName]
			if class == nil || ptr.Deref(a.AdminAccess, false) {
				return false
			}
			s := readSelectors(class.Spec.Selectors, a.Selectors)
			others := maps.Clone(s.attributes[s.driver])
			for _, name := range []string{"type", "profile", "productName"} {
				delete(others, name)
			}
			return s.unread != nil || len(others) > 0 || len(s.attributes) > 1 || !demand.IsAccelerator(s.driver) || a.Capacity != nil ||
				c.parts[deviceType{s.driver, s.attributes[s.driver]["type"]}] > 1 || len(a.Tolerations) > 0 || a.AllocationMode == resourcev1.DeviceAllocationModeAll
		})
	})
}

// allocate labels the nodes and pools that have no devices for the claims of pending pods.
func (o *Observer) allocate(ctx context.Context, c *cluster, of map[string][]*foreign.Devices, taints []*foreign.DeviceTaint, out *Observation) error {
	if len(c.claims.asked) == 0 {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, allocationTime)
	defer stop()
	shared := map[foreign.DeviceName]bool{}
	for _, d := range of[""] {
		shared[d.DeviceName] = true
	}
	held := heldBy(c.claims.claims, out)
	// On a new node none of the node's own devices is allocated, and only taints that all devices of a slice have count.
	next := allocatedState(held, func(pool foreign.DeviceName) bool { return shared[pool] })
	systematic := slices.DeleteFunc(slices.Clone(taints), func(t *foreign.DeviceTaint) bool { return t.Pool != "" })
	for i := range out.Pools {
		t := &out.Pools[i].Template
		l := o.learned[out.Pools[i].Name]
		if l.newest == nil {
			continue
		}
		// Taints that not all devices of a slice have, or that left the node no GPU, are not a new node's.
		all, err := unpacked(slices.Concat(l.devices, of[""]), systematic, func(d *foreign.Devices) bool {
			return sound(d) || !slices.ContainsFunc(l.devices, func(d *foreign.Devices) bool { return demand.IsAccelerator(d.Driver) && sound(d) })
		})
		if err != nil {
			return err
		}
		for _, key := range o.lacking(ctx, c.claims, next, all, l.newest) {
			t.Labels = withLabel(t.Labels, key, allocatesNot)
		}
	}
	now := allocatedState(held, func(foreign.DeviceName) bool { return true })
	for i := range out.Nodes {
		n := &out.Nodes[i]
		if !n.Ready || !settled(c.byName[n.Name], out.Now) {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		all, err := unpacked(slices.Concat(of[n.Name], of[""]), taints, func(*foreign.Devices) bool { return false })
		if err != nil {
			return err
		}
		for _, key := range o.lacking(ctx, c.claims, now, all, c.byName[n.Name]) {
			n.Labels = withLabel(n.Labels, key, allocatesNot)
		}
	}
	return nil
}

// heldBy returns the allocated claims, without those that only pods about to leave use.
func heldBy(claims map[client.ObjectKey]*resourcev1.ResourceClaim, out *Observation) (held []*resourcev1.ResourceClaim) {
	leaving := map[types.UID]bool{}
	for i := range out.Pods {
		if p := &out.Pods[i]; !p.Charged(out.Now) {
			leaving[types.UID(p.UID)] = true
		}
	}
	for _, claim := range claims {
		stays := func(r resourcev1.ResourceClaimConsumerReference) bool { return !leaving[r.UID] }
		if claim.Status.Allocation != nil && (len(claim.Status.ReservedFor) == 0 || slices.ContainsFunc(claim.Status.ReservedFor, stays)) {
			held = append(held, claim)
		}
	}
	return held
}

// sound reports whether a device of a slice has no taint of its own.
func sound(d *foreign.Devices) bool {
	return slices.ContainsFunc(d.Each, func(one foreign.Device) bool { return !one.Tainted })
}

// unpacked returns the ResourceSlices with the taints of DeviceTaintRules, without the own taints of some slices.
func unpacked(devices []*foreign.Devices, taints []*foreign.DeviceTaint, without func(*foreign.Devices) bool) ([]*resourcev1.ResourceSlice, error) {
	out := make([]*resourcev1.ResourceSlice, len(devices))
	for i, d := range devices {
		s, err := d.Slice()
		if err != nil {
			return nil, err
		}
		s.Name = fmt.Sprint(i)
		for k := range s.Spec.Devices {
			one := &s.Spec.Devices[k]
			if without(d) {
				one.Taints = nil
			}
			for _, t := range taints {
				if t.IsOn(foreign.DeviceName{Driver: d.Driver, Pool: d.Pool, Device: one.Name}) {
					one.Taints = append(one.Taints, t.DeviceTaint)
				}
			}
		}
		out[i] = s
	}
	return out, nil
}

// allocatedState returns the devices that claims have, of the pools that count.
func allocatedState(held []*resourcev1.ResourceClaim, counts func(pool foreign.DeviceName) bool) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range held {
		for i := range claim.Status.Allocation.Devices.Results {
			d := &claim.Status.Allocation.Devices.Results[i]
			id := structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
			switch {
			case ptr.Deref(d.AdminAccess, false) || !counts(foreign.DeviceName{Driver: d.Driver, Pool: d.Pool}):
			case d.ShareID != nil:
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, d.ShareID))
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, d.ConsumedCapacity))
			default:
				state.AllocatedDevices.Insert(id)
			}
		}
	}
	return state
}

// lacking returns the labels of the claims for which a node has no devices. If the search runs out of time, the node
// counts as having them.
func (o *Observer) lacking(ctx context.Context, c *Claims, state structured.AllocatedState, of []*resourcev1.ResourceSlice, n *corev1.Node) (keys []string) {
	search, err := structured.NewAllocator(ctx, allocatorFeatures, state, c, of, o.expressions)
	for key, claims := range c.asked {
		inTime, stop := context.WithTimeout(ctx, allocationTimeOfNode)
		var allocated []resourcev1.AllocationResult
		if err == nil { // on an error, here or of Allocate, the scheduler does not bind a pod either
			allocated, _ = search.Allocate(inTime, n, claims)
		}
		if allocated == nil && inTime.Err() == nil {
			keys = append(keys, key)
		}
		stop()
	}
	return keys
}

// List and Get make Claims the allocator's lister of classes.
func (c *Claims) List() ([]*resourcev1.DeviceClass, error) {
	return slices.Collect(maps.Values(c.classes)), nil
}

// Get returns a class.
func (c *Claims) Get(name string) (*resourcev1.DeviceClass, error) {
	if class := c.classes[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("there is no DeviceClass %s", name)
}
