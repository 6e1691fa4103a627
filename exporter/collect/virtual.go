package collect

import "strings"

// holdLabels renders what the DCGM series say of how a container holds an
// entity: the DRA claim, and with --kubernetes-virtual-gpus the share. A
// container with several shares of one card has one series: vgpu="0,2".
func (c *CompatOptions) holdLabels(h Hold) string {
	vgpu := ""
	if c.VirtualGPUs && len(h.Shares) > 0 {
		vgpu = string(appendLabel(nil, "vgpu", strings.Join(h.Shares, ",")))
	}
	return joinLabels(h.Claim.labels(), vgpu)
}

// addShares adds GPU_UTIL or FB_USED of a shared entity in the parts of its
// containers and what is left over without one, and reports whether it did.
// dcgm-exporter would repeat every value of the card for each of them.
func (c *CompatOptions) addShares(s *subject, field uint16, v Value, page *pageFamily) bool {
	if !c.VirtualGPUs || v.IsText {
		return false
	}
	compat := func(s *subject) string { return s.labels.compat }
	switch field {
	case fieldGPUUtil:
		return s.addDivided(v.Number, v.Time, func(h *Hold) Measured { return h.Busy.times(100) }, compat, page.add)
	case fieldFBUsed:
		return s.addDivided(v.Number, v.Time, func(h *Hold) Measured { return h.Memory.times(1.0 / mebibyte) }, compat, page.add)
	}
	return false
}

func (m Measured) times(factor float64) Measured {
	m.Number *= factor
	return m
}
