package gpu

import (
	"slices"
	"testing"
)

// TestXIDsCondemnAsInNVIDIAsCatalogue: these are the codes for which the catalogue (of November 2026, "Analyzing Xid
// Errors with the Xid Catalog") has an immediate action beyond the application: RESET_GPU, RESTART_BM, or a workflow
// that ends in a reset.
func TestXIDsCondemnAsInNVIDIAsCatalogue(t *testing.T) {
	resets := []int{46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158}
	application := []int{109} // by NVIDIA's device plugin (0.19, internal/rm/health.go), which gives the GPU to further pods
	intended := []int{155}    // an NVLink that was taken down on purpose has it, too
	sameAs62 := []int{169}    // another micro-controller's halt, without an action in the catalogue
	for xid := range 256 {
		want := slices.Contains(resets, xid) && !slices.Contains(application, xid) && !slices.Contains(intended, xid) || slices.Contains(sameAs62, xid)
		if got := XIDCondemns(xid); got != want {
			t.Errorf("XID %d condemns: %v, want %v", xid, got, want)
		}
	}
}
