package collect

import "strconv"

// Peer is the state of the NVLink path from a card to another.
type Peer struct {
	GPU    int // the other card
	Status int // NVML's peer-to-peer status; 0 is fine
}

// peerStatus names NVML's states as dcgm-exporter does.
func peerStatus(status int) string {
	names := []string{
		"OK", "ChipsetNotSupported", "GPUNotSupported", "TopologyNotSupported", "DisabledByRegKey", "NotSupported",
	}
	if status < 0 || status >= len(names) {
		return "Unknown"
	}
	return names[status]
}

// addPeerStatus has a series for each pair of cards.
func addPeerStatus(c *CompatOptions, m *Moment, page *pageFamily) {
	c.eachWholeCard(m, func(card *Entity, l *labelSet) {
		for _, p := range card.Peers {
			page.add(l.dcgm("peer_gpu", strconv.Itoa(p.GPU), "link_status", peerStatus(p.Status)), float64(p.Status), m.taken)
		}
	})
}
