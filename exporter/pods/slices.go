package pods

import (
	"context"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// nvidiaDriver is the DRA driver whose devices are GPUs and MIG instances.
const nvidiaDriver = "gpu.nvidia.com"

// draName names a device as a claim does.
type draName struct{ driver, pool, device string }

// sliceList is the part of a ResourceSliceList that is read. v1beta1 puts a
// device's content into "basic".
type sliceList struct {
	Items []struct {
		Spec struct {
			Driver string
			Pool   struct {
				Name       string
				Generation int64
			}
			Devices []struct {
				Name string
				sliceDevice
				Basic *sliceDevice
			}
		}
	}
}

type sliceDevice struct {
	Attributes       map[string]struct{ String *string }
	ConsumesCounters []struct{ Counters map[string]any }
}

// listSlices reads which devices the node's DRA drivers offer. Before Kubernetes 1.34 the API
// was v1beta1.
func (a *API) listSlices(ctx context.Context, node string) (map[draName]Device, error) {
	var list sliceList
	err := a.Read(ctx, "/apis/resource.k8s.io/v1/resourceslices", ofNode(node), &list)
	if apierrors.IsNotFound(err) {
		err = a.Read(ctx, "/apis/resource.k8s.io/v1beta1/resourceslices", ofNode(node), &list)
	}
	return list.devices(), err
}

// devices maps the names of NVIDIA's devices to what they are. Only the newest
// generation of a pool counts: the older slices are being replaced.
func (l *sliceList) devices() map[draName]Device {
	newest := map[string]int64{}
	for i := range l.Items {
		if s := &l.Items[i].Spec; s.Driver == nvidiaDriver {
			newest[s.Pool.Name] = max(newest[s.Pool.Name], s.Pool.Generation)
		}
	}
	devices := map[draName]Device{}
	for i := range l.Items {
		s := &l.Items[i].Spec
		if s.Driver != nvidiaDriver || s.Pool.Generation < newest[s.Pool.Name] {
			continue
		}
		for _, d := range s.Devices {
			content := d.sliceDevice
			if d.Basic != nil {
				content = *d.Basic
			}
			if device, ok := content.device(); ok {
				devices[draName{s.Driver, s.Pool.Name, d.Name}] = device
			}
		}
	}
	return devices
}

// device is what the slice says of a device. A MIG device that is only made
// when it is claimed has no UUID; its placement identifies it.
func (d *sliceDevice) device() (Device, bool) {
	out := Device{Minor: -1, Index: -1, Instance: -1, Start: -1}
	uuid := d.attribute("uuid")
	switch kind := d.attribute("type"); {
	case kind == "gpu" && strings.HasPrefix(uuid, "GPU-"):
		out.UUID = uuid
		return out, true
	case kind != "mig":
		return Device{}, false
	}
	out.Profile = d.attribute("profile")
	if strings.HasPrefix(uuid, "MIG-") {
		out.InstanceUUID = uuid
		return out, true
	}
	out.Start, out.Size = d.memorySlices()
	out.UUID = d.attribute("parentUUID")
	return out, out.UUID != "" && out.Profile != ""
}

// attribute returns a string attribute, qualified by the driver's domain or not.
func (d *sliceDevice) attribute(name string) string {
	for _, key := range []string{name, nvidiaDriver + "/" + name} {
		if value := d.Attributes[key].String; value != nil {
			return *value
		}
	}
	return ""
}

// memorySlices reads the placement: counters "memory-slice-N" that the device takes from its GPU.
// Start is -1 where there are none.
func (d *sliceDevice) memorySlices() (start, size int) {
	start = -1
	for _, set := range d.ConsumesCounters {
		for name := range set.Counters {
			number, ok := strings.CutPrefix(name, "memory-slice-")
			n, err := strconv.ParseUint(number, 10, 8)
			if !ok || err != nil {
				continue
			}
			if start < 0 || int(n) < start {
				start = int(n)
			}
			size++
		}
	}
	return start, size
}
