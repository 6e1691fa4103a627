package gpu

import "slices"

// condemning are the XIDs for which XIDCondemns is true, of NVIDIA's catalogue: 48 double-bit
// ECC, 62 and 169 micro-controller halt, 64 row remapping not recorded, 74 NVLink, 79 off the
// bus, 95 uncontained ECC, 119 and 120 GSP, 140 unrecovered ECC, 143 initialization. The others
// are caused by applications.
var condemning = []int{48, 62, 64, 74, 79, 95, 119, 120, 140, 143, 169}

// XIDCondemns reports whether a GPU needs a reset or a technician after an XID.
func XIDCondemns(xid int) bool { return slices.Contains(condemning, xid) }
