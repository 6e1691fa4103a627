package dcgm

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// cardIdentity is who a card is. What was once known stays known when the card
// is lost and answers blanks.
type cardIdentity struct {
	attributes
	minor      int
	mig        bool
	maxCompute int
	away       bool // DCGM said last that the card is lost
}

// learnCards reads each card's attributes. A card that fails keeps what was
// known of it.
func (r *reader) learnCards() {
	for _, gpu := range r.layout.gpus {
		a, err := readAttributes(gpu)
		if err != nil {
			r.options.Log.Warn("DCGM card attributes not read", "gpu", gpu, "error", err)
		}
		old := r.cards[gpu]
		if old == nil || a.uuid != "" && a.uuid != old.uuid {
			// Another card under the same number, or the first look at it.
			// /dev/nvidiaN and DCGM's number mostly agree, until DCGM says more.
			r.cards[gpu] = &cardIdentity{attributes: a, minor: int(gpu)}
			continue
		}
		old.attributes = attributes{
			uuid: cmp.Or(a.uuid, old.uuid), name: cmp.Or(a.name, old.name),
			pciBusID: cmp.Or(a.pciBusID, old.pciBusID), driver: cmp.Or(a.driver, old.driver),
		}
	}
}

// uuidOf is a card's UUID, empty where it is not known.
func (r *reader) uuidOf(gpu uint32) string {
	if card := r.cards[gpu]; card != nil {
		return card.uuid
	}
	return ""
}

// strangers reports whether there is a card of which nothing is known.
func (r *reader) strangers() bool {
	return slices.ContainsFunc(r.layout.gpus, func(gpu uint32) bool { return r.cards[gpu].uuid == "" })
}

// noticeRemade asks the driver again when an instance has another UUID than
// before: it was made anew, perhaps elsewhere on the card, under its old number.
func (r *reader) noticeRemade(key entityKey, uuid string) {
	before, seen := r.uuids[key]
	r.uuids[key] = uuid
	if seen && before != uuid {
		r.learnPlaces()
	}
}

// learnPlaces asks the driver where the instances lie.
func (r *reader) learnPlaces() {
	r.places = map[entityKey]place{}
	for _, gpu := range r.layout.gpus {
		var ids []int
		for _, p := range r.layout.instances {
			if p.gpu == gpu {
				ids = append(ids, p.instanceID)
			}
		}
		places := readPlaces(r.cards[gpu].uuid, ids)
		for _, p := range r.layout.instances {
			if found, ok := places[p.instanceID]; ok && p.gpu == gpu {
				r.places[p.key] = found
			}
		}
	}
}

// take notes a value that tells who a card is.
func (c *cardIdentity) take(v collect.Value) {
	switch v.Field {
	case fieldMinor:
		c.minor = int(v.Number)
	case fieldMIGMode:
		c.mig = v.Number != 0
	case fieldMIGMax:
		c.maxCompute = int(v.Number)
	}
}

func (c *cardIdentity) entity(gpu uint32) collect.Entity {
	return collect.Entity{
		Kind: collect.GPU, GPU: int(gpu), UUID: c.uuid, Model: c.name, PCIBusID: c.pciBusID,
		Minor: c.minor, MIG: c.mig, DriverVersion: c.driver, CardMaxCompute: c.maxCompute,
	}
}

// profileName is a GPU instance profile: "3g.40gb", "1g.10gb+me", "1g.24gb+me.all",
// "1g.24gb-me", which says what it does not have.
var profileName = regexp.MustCompile(`^\d+g\.\d+gb([+-][a-z.,]+)*$`)

// instanceEntity fits an instance onto its card. What DCGM says of the instance
// comes before what the driver says; older versions answer with the card's own
// name and UUID, which is told by their form.
func instanceEntity(card collect.Entity, p placed, driver place, known bool, values []collect.Value) collect.Entity {
	e := card
	e.Kind, e.InstanceID, e.ComputeSlices, e.DCGMID = collect.Instance, p.instanceID, p.computeSlices, int(p.key.id)
	e.Start, e.Size, e.Values = -1, 0, nil
	if known {
		e.Start, e.Size, e.InstanceUUID, e.Profile = driver.start, driver.size, driver.uuid, driver.profile
	}
	for _, v := range values {
		switch {
		case v.Field == fieldUUID && strings.HasPrefix(v.Text, "MIG-"):
			e.InstanceUUID = v.Text
		case v.Field == fieldName && profileName.MatchString(v.Text):
			e.Profile = v.Text
		}
	}
	return e
}
