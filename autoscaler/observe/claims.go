package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// Claims are the resource claims (DRA) of a cluster, for its pods' demand.
type Claims struct {
	claims    map[client.ObjectKey]*resourcev1.ResourceClaim
	templates map[client.ObjectKey]*resourcev1.ResourceClaimTemplate
	classes   map[string]*resourcev1.DeviceClass
	extended  map[string]*resourcev1.DeviceClass     // by the extended resource that it serves
	counted   map[client.ObjectKey]string            // the pod that a claim counts for
	kai       map[string]bool                        // groups of pods for which KAI reserves a GPU, "node/group"
	asked     map[string][]*resourcev1.ResourceClaim // claims of pending pods that require more than a demand states, by label
	asking    map[string]int                         // number of asked, by the namespace that was the first to ask
	parts     map[deviceType]int                     // how many requests without a capacity share a device
	pools     []plan.Pool
	tables    mig.Tables
	objects   foreign.Objects
}

// NewClaims builds Claims from objects, which are not written to. A claim that several pods share
// counts for one of them: one it is reserved for, else one that is bound, else the oldest.
func NewClaims(
	claims []resourcev1.ResourceClaim, templates []resourcev1.ResourceClaimTemplate, classes []resourcev1.DeviceClass, pods []*corev1.Pod,
) *Claims {
	c := &Claims{
		claims: byKey(claims), templates: byKey(templates), counted: map[client.ObjectKey]string{}, kai: map[string]bool{},
		asking: map[string]int{}, asked: map[string][]*resourcev1.ResourceClaim{},
		classes: map[string]*resourcev1.DeviceClass{}, extended: map[string]*resourcev1.DeviceClass{},
	}
	for i := range classes {
		class := &classes[i]
		c.classes[class.Name] = class
		if name := class.Spec.ExtendedResourceName; name != nil && newer(class, c.extended[*name]) {
			c.extended[*name] = class
		}
	}
	c.share(pods)
	return c
}

// byKey returns the objects of a list by namespace and name.
func byKey[T any, P interface {
	*T
	client.Object
}](list []T) map[client.ObjectKey]*T {
	out := make(map[client.ObjectKey]*T, len(list))
	for i := range list {
		out[client.ObjectKeyFromObject(P(&list[i]))] = &list[i]
	}
	return out
}

// newer is the scheduler's order between classes that serve one resource: the later created, then
// the first by name.
func newer(a, b *resourcev1.DeviceClass) bool {
	return b == nil || cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name)) < 0
}

// share chooses the pod that each claim counts for, and records the groups for which KAI reserves a GPU. Pods that have
// ended are left out.
func (c *Claims) share(pods []*corev1.Pod) {
	users := map[client.ObjectKey][]*corev1.Pod{}
	for _, p := range pods {
		if group := p.Labels[demand.KAIGroup]; group != "" && kube.StandsIn(p) && !kube.IsOver(p) {
			c.kai[p.Spec.NodeName+"/"+group] = true
		}
		for i := range p.Spec.ResourceClaims {
			name, _, _ := resourceclaim.Name(p, &p.Spec.ResourceClaims[i]) // none while the claim is not made
			if key := (client.ObjectKey{Namespace: p.Namespace, Name: ptr.Deref(name, "")}); c.claims[key] != nil && !kube.IsOver(p) {
				users[key] = append(users[key], p)
			}
		}
	}
	for key, of := range users {
		slices.SortFunc(of, func(a, b *corev1.Pod) int {
			bound := cmp.Compare(one(b.Spec.NodeName != ""), one(a.Spec.NodeName != ""))
			return cmp.Or(bound, a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
		})
		reserved := slices.IndexFunc(of, func(p *corev1.Pod) bool { return resourceclaim.IsReservedForPod(p, c.claims[key], false) })
		c.counted[key] = of[max(reserved, 0)].Name
	}
}

// ofPod returns the demand of a pod's claims, and the NVML names of the products that they require. Constraints across
// devices are not part of a demand.
func (c *Claims) ofPod(p *corev1.Pod) (sum demand.Demand, products []string, err error) {
	for i := range p.Spec.ResourceClaims {
		rc := &p.Spec.ResourceClaims[i]
		devices, err := c.ofClaim(p, rc)
		var one demand.Demand
		if err == nil {
			one, err = demand.FromDevices(devices)
		}
		if err == nil {
			sum, err = demand.Sum(sum, one)
		}
		if err != nil {
			return demand.Demand{}, nil, fmt.Errorf("resource claim %s: %w", rc.Name, err)
		}
		for _, d := range devices {
			if product := d.Attributes["productName"]; product != "" {
				products = append(products, product)
			}
		}
	}
	return sum, products, nil
}

// watches reports whether a pod has admin access to devices by a claim.
func (c *Claims) watches(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.ResourceClaims, func(rc corev1.PodResourceClaim) bool {
		devices, _ := c.ofClaim(p, &rc) // an error has made the pod unreadable
		return slices.ContainsFunc(devices, func(d demand.Device) bool { return d.Admin })
	})
}

// ofClaim returns the devices that a pod requests by a claim.
func (c *Claims) ofClaim(p *corev1.Pod, rc *corev1.PodResourceClaim) (devices []demand.Device, err error) {
	claim, err := c.claimOf(p, rc)
	if err != nil || claim == nil {
		return nil, err
	}
	if by := c.counted[client.ObjectKeyFromObject(claim)]; by != "" && by != p.Name {
		return nil, nil
	}
	spec, allocation := &claim.Spec.Devices, claim.Status.Allocation
	for i := range spec.Requests {
		d, err := c.device(&spec.Requests[i], allocation)
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", spec.Requests[i].Name, err)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// claimOf returns a pod's claim; without a name if it is still to be created from its template. It is nil where the pod
// needs none. For a pod still to be created it is nil too where its PodGroup shares the claim, which counts for a pod
// that exists.
func (c *Claims) claimOf(p *corev1.Pod, rc *corev1.PodResourceClaim) (*resourcev1.ResourceClaim, error) {
	switch name, _, err := resourceclaim.Name(p, rc); {
	case name != nil:
		claim := c.claims[client.ObjectKey{Namespace: p.Namespace, Name: *name}]
		if claim == nil {
			return nil, fmt.Errorf("there is no ResourceClaim %s", *name)
		}
		return claim, nil
	case err == nil:
		return nil, nil
	case rc.ResourceClaimTemplateName == nil:
		return nil, fmt.Errorf("it names neither a claim nor a template")
	case c.ofGroup(p, rc) && p.Name == "":
		return nil, nil // it counts for a pod of the group that exists
	case c.ofGroup(p, rc):
		return nil, fmt.Errorf("it does not exist yet for PodGroup %s, whose pods share it", *p.Spec.SchedulingGroup.PodGroupName)
	}
	template := c.templates[client.ObjectKey{Namespace: p.Namespace, Name: *rc.ResourceClaimTemplateName}]
	if template == nil {
		return nil, fmt.Errorf("there is no ResourceClaimTemplate %s", *rc.ResourceClaimTemplateName)
	}
	return &resourcev1.ResourceClaim{Spec: template.Spec.Spec}, nil
}

// ofGroup reports whether the claim that a pod has by a template belongs to its PodGroup. All pods of the group share
// such a claim (Kubernetes 1.37, DRAWorkloadResourceClaims).
func (c *Claims) ofGroup(p *corev1.Pod, rc *corev1.PodResourceClaim) bool {
	g := p.Spec.SchedulingGroup
	if g == nil || g.PodGroupName == nil {
		return false
	}
	group := c.objects.Group(foreign.BuiltInPodGroup.Of(p.Namespace, *g.PodGroupName))
	return group != nil && group.Group.Claims[rc.Name] == *rc.ResourceClaimTemplateName
}

// devicesInUse returns the devices that are allocated to claims, except for admin access, each with the pods that its
// claim is reserved for, "namespace/pod". Of a PodGroup that is the pod that the claim counts for. A claim that is
// reserved for none stands for itself.
func (c *Claims) devicesInUse() map[foreign.DeviceName][]string {
	out := map[foreign.DeviceName][]string{}
	for key, claim := range c.claims {
		if claim.Status.Allocation == nil {
			continue
		}
		var pods []string
		for _, r := range claim.Status.ReservedFor {
			name := r.Name
			if r.Resource != "pods" {
				name = cmp.Or(c.counted[key], name)
			}
			pods = append(pods, key.Namespace+"/"+name)
		}
		if pods == nil {
			pods = []string{key.String()}
		}
		for _, d := range claim.Status.Allocation.Devices.Results {
			name := foreign.DeviceName{Driver: d.Driver, Pool: d.Pool, Device: d.Device}
			if !ptr.Deref(d.AdminAccess, false) { // several claims may share a device
				out[name] = slices.Compact(slices.Sorted(slices.Values(append(out[name], pods...))))
			}
		}
	}
	return out
}

// servedBy requires that a node offers its GPUs in a way that serves the pod. Claims need DRA. An extended resource
// needs a device plugin, or DRA where a DeviceClass names the resource.
func (c *Claims) servedBy(p *corev1.Pod, claims bool) (out [][]plan.NodeTerm) {
	if len(c.classes) == 0 {
		return nil
	}
	plain := false
	for name, n := range kube.ExtendedRequests(p) {
		byClass := strings.HasPrefix(name, resourcev1.ResourceDeviceClassPrefix)
		claims = claims || n > 0 && byClass
		d, _ := demandOf(name) // what is not known is no GPU
		plain = plain || n > 0 && !byClass && !d.Zero() && c.extended[name] == nil
	}
	if claims {
		out = append(out, requiring(offeredBy, corev1.NodeSelectorOpNotIn, byPlugin))
	}
	if plain {
		out = append(out, requiring(offeredBy, corev1.NodeSelectorOpNotIn, byDRA))
	}
	return out
}

// serving returns the DeviceClass that serves an extended resource, nil for none.
func (c *Claims) serving(resource string) *resourcev1.DeviceClass {
	if of, ok := strings.CutPrefix(resource, resourcev1.ResourceDeviceClassPrefix); ok {
		return c.classes[of]
	}
	return c.extended[resource]
}

// extendedOf removes the extended resources that a device class serves from list, and returns their
// devices. Whole GPUs stay in the list: the device plugin may serve them too, and other resources
// may be parts of them.
func (c *Claims) extendedOf(list map[string]int64) ([]demand.Device, error) {
	var out []demand.Device
	for _, name := range slices.Sorted(maps.Keys(list)) {
		n, class := list[name], c.serving(name)
		switch {
		case class == nil && n > 0 && strings.HasPrefix(name, resourcev1.ResourceDeviceClassPrefix):
			return nil, fmt.Errorf("resource %s: there is no such DeviceClass", name)
		case class == nil || n <= 0:
			continue
		}
		d, err := c.devicesOf(class.Name, nil)
		if err != nil {
			return nil, fmt.Errorf("resource %s: %w", name, err)
		}
		if plain, err := demandOf(name); err == nil && plain.GPUs == 1 && d.Attributes["type"] != "mig" {
			continue
		}
		if err := unknown(d.Driver); err != nil {
			return nil, fmt.Errorf("resource %s: %w", name, err)
		}
		d.Name, d.Count = name, int(n)
		_, d.CoreMilli, _ = partOf(nil, c.parts[deviceType{d.Driver, d.Attributes["type"]}])
		delete(list, name)
		out = append(out, d)
	}
	return out, nil
}
