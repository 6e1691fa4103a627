package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// alternative is what a request selects, or one entry of its prioritized list.
type alternative struct {
	name string // as in the claim's allocation
	*resourcev1.ExactDeviceRequest
}

func alternatives(r *resourcev1.DeviceRequest) (out []alternative) {
	if r.Exactly != nil {
		return []alternative{{r.Name, r.Exactly}}
	}
	for i := range r.FirstAvailable {
		sub := &r.FirstAvailable[i]
		out = append(out, alternative{r.Name + "/" + sub.Name, &resourcev1.ExactDeviceRequest{
			DeviceClassName: sub.DeviceClassName, Selectors: sub.Selectors, AllocationMode: sub.AllocationMode, Count: sub.Count,
			Tolerations: sub.Tolerations, Capacity: sub.Capacity,
		}})
	}
	return out
}

// device reads one request. Of a prioritized list it reads the allocated alternative. While none is allocated it reads
// the first that a new node of a pool could have, else the first.
func (c *Claims) device(r *resourcev1.DeviceRequest, allocation *resourcev1.AllocationResult) (first demand.Device, err error) {
	all := alternatives(r)
	if len(all) == 0 {
		return first, fmt.Errorf("unsupported kind of request")
	}
	for i, a := range all {
		d, readErr := c.exactly(r.Name, a, allocation)
		if d.All {
			d = c.everyGPU(d)
		}
		if i == 0 {
			first, err = d, readErr
		}
		if allocated(allocation, a.name) > 0 || allocation == nil && readErr == nil && len(c.offering(d)) > 0 {
			return d, readErr
		}
	}
	return first, err
}

// offering returns the pools whose new nodes could have what a request selects.
func (c *Claims) offering(d demand.Device) (out []*plan.Pool) {
	want, err := demand.FromDevices([]demand.Device{d})
	for i := range c.pools {
		p := &c.pools[i]
		gpus, product := p.Template.GPUs, d.Attributes["productName"]
		if err != nil || len(gpus) < max(want.GPUs, 1) || product != "" && gpu.ProductName(product) != gpus[0].Model.Name {
			continue
		}
		table, _ := c.tables.ForModel(gpus[0].Model.Name)
		if (want.Vendor == "" || want.Vendor == gpus[0].Model.Vendor) && !slices.ContainsFunc(want.MIG, func(in demand.Instances) bool {
			if table == nil {
				return true
			}
			profile, ok := table.Exact(in.Name)
			return !ok || !p.MIG.Repartition && !slices.ContainsFunc(gpus[0].Instances, func(i plan.Instance) bool { return i.Profile == profile })
		}) {
			out = append(out, p)
		}
	}
	return out
}

// everyGPU returns a request for all GPUs of a node with their number in the smallest pool that could serve it. A node
// with more GPUs may serve it too: the scheduler's allocator decides whether all of them are free (requiresMore). It
// stays as it is where the number is unknown: without such a pool, and for parts of GPUs.
func (c *Claims) everyGPU(d demand.Device) demand.Device {
	one := d
	one.All, one.Count = false, 1
	if want, err := demand.FromDevices([]demand.Device{one}); err != nil || want.GPUs == 0 {
		return d
	}
	for _, p := range c.offering(one) {
		if n := len(p.Template.GPUs); d.All || n < d.Count {
			d.All, d.Count = false, n
		}
	}
	return d
}

// exactly reads an alternative of a request.
func (c *Claims) exactly(of string, exact alternative, allocation *resourcev1.AllocationResult) (demand.Device, error) {
	if ptr.Deref(exact.AdminAccess, false) { // to devices that are allocated to others
		return demand.Device{Name: of, Admin: true}, nil
	}
	count := allocated(allocation, exact.name)
	d, err := c.devicesOf(exact.DeviceClassName, exact.Selectors)
	d.Name = of
	if err != nil || d.Driver != "" && !demand.IsAccelerator(d.Driver) {
		return d, cmp.Or(err, unknown(d.Driver))
	}
	switch exact.AllocationMode {
	case "", resourcev1.DeviceAllocationModeExactCount:
		if d.Count = int(exact.Count); d.Count == 0 {
			d.Count = 1
		}
	case resourcev1.DeviceAllocationModeAll:
		d.Count, d.All = count, count == 0
	default:
		return demand.Device{}, fmt.Errorf("allocation mode %q is not known", exact.AllocationMode)
	}
	parts := c.parts[deviceType{d.Driver, d.Attributes["type"]}]
	d.MemoryMiB, d.CoreMilli, err = partOf(ptr.Deref(exact.Capacity, resourcev1.CapacityRequirements{}).Requests, parts)
	return d, err
}

// unknown returns an error for a driver of unknown accelerators, nil for any other driver. Such devices may be parts of
// GPUs, as those of HAMi's driver are, and these GPUs would count as free.
func unknown(driver string) error {
	if demand.IsAccelerator(driver) || !isDevice(driver) {
		return nil
	}
	return fmt.Errorf("device of %s: %s", driver, noSuchDevice)
}

// allocated counts the devices that are allocated to a request.
func allocated(a *resourcev1.AllocationResult, request string) (n int) {
	for i := 0; a != nil && i < len(a.Devices.Results); i++ {
		if a.Devices.Results[i].Request == request {
			n++
		}
	}
	return n
}

// devicesOf returns the devices of a class that the selectors select.
func (c *Claims) devicesOf(class string, selectors []resourcev1.DeviceSelector) (demand.Device, error) {
	known := c.classes[class]
	if known == nil {
		return demand.Device{}, fmt.Errorf("there is no DeviceClass %s", class)
	}
	s := readSelectors(known.Spec.Selectors, selectors)
	d := demand.Device{Driver: s.driver, Attributes: s.attributes[s.driver]}
	switch {
	case s.driver != "" && !demand.IsAccelerator(s.driver):
		return d, nil
	case hasSize(&d): // whatever else they select
		return d, nil
	case s.unread != nil:
		return demand.Device{}, s.unread
	}
	for domain := range s.attributes {
		if domain != s.driver && s.driver != "" {
			return demand.Device{}, fmt.Errorf("it is unknown which devices of %s have an attribute of %s", s.driver, domain)
		}
	}
	return d, nil
}

// hasSize reports whether the type or profile of devices states their size. If so it removes all attributes but these
// and the product.
func hasSize(d *demand.Device) bool {
	of := demand.Device{Driver: d.Driver, Attributes: map[string]string{}, Count: 1}
	for _, name := range []string{"type", "profile", "productName"} {
		if value := d.Attributes[name]; value != "" {
			of.Attributes[name] = value
		}
	}
	if _, err := demand.FromDevices([]demand.Device{of}); err != nil || of.Attributes["type"]+of.Attributes["profile"] == "" {
		return false
	}
	d.Attributes = of.Attributes
	return true
}

// partOf returns what a request takes of each device: of its memory, and in thousandths of the device. parts is how many
// requests without a capacity share a device; 0 and 1 for none.
func partOf(requests map[resourcev1.QualifiedName]apiresource.Quantity, parts int) (mib, milli int, err error) {
	shares := int64(1)
	for name, q := range requests {
		switch id := string(name[strings.IndexByte(string(name), '/')+1:]); {
		case q.Sign() <= 0:
			return 0, 0, fmt.Errorf("capacity %s: %s", name, q.String())
		case id == "memory":
			mib = int((bounded(q).Value() + 1<<20 - 1) >> 20)
		case id == "shares" && parts > 1:
			shares = min(q.Value(), int64(parts))
		default:
			return 0, 0, fmt.Errorf("capacity %s: its share of a GPU is unknown", name)
		}
	}
	if parts > 1 {
		milli = int(1000 * shares / int64(parts))
	}
	return mib, milli, nil
}

// deviceType is a type of a driver's devices.
type deviceType struct{ driver, name string }

// partsOf returns how many requests without a capacity share a device. The least shared one of a type counts.
func partsOf(devices map[string][]*foreign.Devices, learned map[string]learned) map[deviceType]int {
	out := map[deviceType]int{}
	all := slices.Collect(maps.Values(devices))
	for _, l := range learned {
		all = append(all, l.devices)
	}
	for _, d := range slices.Concat(all...) {
		for _, one := range d.Each {
			of := deviceType{d.Driver, one.Type}
			out[of] = min(cmp.Or(out[of], one.Parts), one.Parts)
		}
	}
	return out
}
