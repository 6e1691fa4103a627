package gpu

import "slices"

// condemning are the XIDs for which XIDCondemns is true: those for which NVIDIA's catalogue ("Analyzing Xid Errors with
// the Xid Catalog", November 2026) has a reset of the GPU or of the node as the immediate action. 46 GPU timeout, 48
// double-bit ECC, 62 and 169 micro-controller halt, 64 row remapping not recorded, 74 NVLink, 79 off the bus, 95
// uncontained ECC, 110 security fault, 119 and 120 GSP, 136 link training, 140 unrecovered ECC, 143 initialization, 156
// resource retirement, 158 fatal timeout. Without 109, context switch timeout, which NVIDIA's device plugin counts as an
// application's error, and 155, which an NVLink that was taken down on purpose has too.
var condemning = []int{46, 48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 156, 158, 169}

// XIDCondemns reports whether a GPU needs a reset or a technician after an XID.
func XIDCondemns(xid int) bool { return slices.Contains(condemning, xid) }
