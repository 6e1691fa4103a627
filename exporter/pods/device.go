package pods

import (
	"fmt"
	"strconv"
	"strings"
)

// Device is what a device plugin's id names. Exactly one of UUID, InstanceUUID
// and Minor ≥ 0 identifies it.
type Device struct {
	UUID         string // of the card, "GPU-…"
	InstanceUUID string // "MIG-…", as drivers from R470 on name instances
	Minor        int    // N of nvidiaN; -1 where the id has none
	Instance     int    // GPU instance id on the card; -1 for the whole card
	// Replica is the share's name behind "::" or "/vgpu"; empty for the whole.
	Replica string
}

// ParseDevice understands the ids that NVIDIA's and GKE's device plugins hand
// out:
//
//	GPU-<uuid>             a card
//	MIG-<uuid>             an instance
//	MIG-GPU-<uuid>/<gi>/<ci>  an instance, before R470
//	nvidia<N>              a card by minor number
//	nvidia<N>/gi<M>        an instance (GKE)
//
// each also with "::<n>" (time slicing, MPS) or "/vgpu<K>" (GKE) behind it.
func ParseDevice(id string) (Device, error) {
	d := Device{Minor: -1, Instance: -1}
	name, replica, shared := strings.Cut(id, "::")
	if shared && replica == "" {
		return Device{}, unknownID(id)
	}
	if i := strings.LastIndex(name, "/vgpu"); i >= 0 && !shared {
		if _, err := number(name[i+len("/vgpu"):]); err != nil {
			return Device{}, unknownID(id)
		}
		name, replica = name[:i], name[i+1:]
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
		err = strconv.ErrSyntax
	}
	if err != nil {
		return Device{}, unknownID(id)
	}
	return d, nil
}

func unknownID(id string) error {
	return fmt.Errorf("device id %q has no form we know", id)
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
