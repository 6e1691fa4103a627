package pods

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Device is what an id names. One of UUID, InstanceUUID, Minor ≥ 0 and Index ≥ 0
// identifies it.
type Device struct {
	UUID         string // of the GPU, "GPU-…"
	InstanceUUID string // "MIG-…", as drivers from R470 on name instances
	Minor        int    // N of nvidiaN; -1 where the id has none
	Index        int    // the driver's number of the GPU; -1 where the id has none
	Instance     int    // GPU instance id on the GPU; -1 for the whole GPU
	// Replica is the share's name behind "::" or "/vgpu"; empty for the whole.
	Replica string

	// Of a MIG device that a DRA claim takes: its profile, and its place where it has no UUID
	// yet. Start is -1 where that is not known.
	Profile     string
	Start, Size int // memory slices
}

// ParseDevice understands the ids that NVIDIA's and GKE's device plugins hand
// out, and plain numbers:
//
//	GPU-<uuid>                a GPU
//	MIG-<uuid>                an instance
//	MIG-GPU-<uuid>/<gi>/<ci>  an instance, before R470
//	nvidia<N>                 a GPU by minor number
//	nvidia<N>/gi<M>           an instance (GKE)
//	<N>                       a GPU by index
//
// each also with "::<n>" (time slicing, MPS) or "/vgpu<K>" (GKE) behind it.
func ParseDevice(id string) (Device, error) {
	d := Device{Minor: -1, Index: -1, Instance: -1, Start: -1}
	name, replica, shared := strings.Cut(id, "::")
	if shared && replica == "" {
		return Device{}, unknownID(id)
	}
	if i := strings.LastIndex(name, "/vgpu"); i >= 0 && !shared {
		replica = name[i+len("/vgpu"):]
		if _, err := number(replica); err != nil {
			return Device{}, unknownID(id)
		}
		name = name[:i]
	}
	d.Replica = replica
	var err error
	switch {
	case strings.HasPrefix(name, "MIG-GPU-"):
		err = d.parseOldMIG(strings.TrimPrefix(name, "MIG-"))
	case strings.HasPrefix(name, "MIG-") && len(name) > len("MIG-") && !strings.Contains(name, "/"):
		d.InstanceUUID = name
	case strings.HasPrefix(name, "GPU-") && len(name) > len("GPU-") && !strings.Contains(name, "/"):
		d.UUID = name
	case strings.HasPrefix(name, "nvidia"):
		err = d.parseNode(strings.TrimPrefix(name, "nvidia"))
	default:
		d.Index, err = number(name)
	}
	if err != nil {
		return Device{}, unknownID(id)
	}
	return d, nil
}

func unknownID(id string) error {
	return fmt.Errorf("device id %q: want GPU-<uuid>, MIG-<uuid>, MIG-GPU-<uuid>/<gi>/<ci>, nvidia<N>, nvidia<N>/gi<M> or an index", id)
}

// parseOldMIG reads "GPU-<uuid>/<gi>/<ci>".
func (d *Device) parseOldMIG(text string) (err error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "GPU-" {
		return strconv.ErrSyntax
	}
	d.UUID = parts[0]
	if d.Instance, err = number(parts[1]); err != nil {
		return err
	}
	_, err = number(parts[2]) // compute instance: its GPU instance is what we measure
	return err
}

// parseNode reads "<N>" or "<N>/gi<M>".
func (d *Device) parseNode(text string) (err error) {
	minor, instance, cut := strings.Cut(text, "/")
	if d.Minor, err = number(minor); err != nil || !cut {
		return err
	}
	gi, ok := strings.CutPrefix(instance, "gi")
	if !ok {
		return strconv.ErrSyntax
	}
	d.Instance, err = number(gi)
	return err
}

// number reads a small decimal without sign.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}

// find returns the index of the entity that d names, -1 where there is none.
func (d Device) find(entities []collect.Entity) int {
	found := -1
	for i := range entities {
		if !d.names(&entities[i]) {
			continue
		}
		if found >= 0 {
			return -1 // ambiguous: not attributed
		}
		found = i
	}
	return found
}

// names reports whether d can be e.
func (d Device) names(e *collect.Entity) bool {
	switch {
	case d.InstanceUUID != "":
		return e.Kind == collect.Instance && (e.InstanceUUID == d.InstanceUUID || slices.Contains(e.MIGDevices, d.InstanceUUID))
	case d.Profile != "":
		return d.matchesPlacement(e)
	case d.Instance >= 0:
		if e.Kind != collect.Instance || e.InstanceID != d.Instance {
			return false
		}
	case e.Kind != collect.GPU:
		return false
	}
	switch {
	case d.UUID != "":
		return e.UUID == d.UUID
	case d.Minor >= 0:
		return e.Minor == d.Minor
	}
	return e.Index == d.Index
}

// matchesPlacement reports whether the instance e can be the MIG device d,
// which has no UUID: the same GPU, profile and placement, as far as both are
// known.
func (d Device) matchesPlacement(e *collect.Entity) bool {
	if e.Kind != collect.Instance || e.UUID != d.UUID || e.Profile != d.Profile {
		return false
	}
	return d.Start < 0 || e.Start < 0 || d.Start == e.Start && d.Size == e.Size
}
