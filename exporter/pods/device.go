package pods

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Device is what an id names. One of All, UUID, InstanceUUID, Minor ≥ 0 and Index ≥ 0
// identifies it.
type Device struct {
	All          bool   // all GPUs of the machine
	UUID         string // of the GPU, "GPU-…"
	InstanceUUID string // "MIG-…", as drivers from R470 on name instances
	Minor        int    // N of nvidiaN; -1 where the id has none
	Index        int    // the driver's number of the GPU; -1 where the id has none
	Instance     int    // GPU instance id on the GPU; -1 for the whole GPU
	// Replica is the share's name behind "::" or "/vgpu"; empty for the whole.
	Replica string

	// Of a MIG device in a DRA claim: its profile, and its placement if it has no UUID yet.
	// Start is -1 where that is not known.
	Profile     string
	Start, Size int // memory slices
}

var deviceID = regexp.MustCompile(`^(?:(GPU-[^/:]+)|(MIG-[^/:]+)|MIG-(GPU-[^/:]+)/(\d+)/(\d+)|nvidia(\d+)(?:/gi(\d+))?|(\d+)|all)(?:::(.+)|/vgpu(\d+))?$`)

// parseDevice understands the ids that NVIDIA's and GKE's device plugins hand
// out, and plain numbers:
//
//	GPU-<uuid>                a GPU
//	MIG-<uuid>                an instance
//	MIG-GPU-<uuid>/<gi>/<ci>  an instance, before R470
//	nvidia<N>                 a GPU by minor number
//	nvidia<N>/gi<M>           an instance (GKE)
//	<N>                       a GPU by index
//	all                       all GPUs (NVIDIA's on WSL, from 0.20 on: internal/rm/nvml_devices.go)
//
// each also with "::<n>" (time slicing, MPS) or "/vgpu<K>" (GKE) behind it. It is false for others.
func parseDevice(id string) (Device, bool) {
	m := deviceID.FindStringSubmatch(id)
	if m == nil || strings.HasPrefix(m[2], "MIG-GPU-") {
		return Device{}, false
	}
	d := Device{All: strings.HasPrefix(id, "all"), UUID: m[1] + m[3], InstanceUUID: m[2], Replica: m[9] + m[10], Start: -1}
	var compute, share int // what is measured is the GPU instance
	for into, text := range map[*int]string{&d.Instance: m[4] + m[7], &d.Minor: m[6], &d.Index: m[8], &compute: m[5], &share: m[10]} {
		*into = -1
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return Device{}, false
		}
		*into = int(n)
	}
	return d, true
}

// find returns the index of the entity that d names, or those of all GPUs.
func (d Device) find(entities []collect.Entity) (found []int) {
	for i := range entities {
		if d.names(&entities[i]) {
			found = append(found, i)
		}
	}
	if len(found) > 1 && !d.All {
		return nil // ambiguous: not attributed
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
	case d.All:
		return true
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
