package gpu

// Model is a GPU product, as far as capacity depends on it. The zero Model is "unknown".
type Model struct {
	// Name is our canonical name, the key of the MIG table: "H100-80GB".
	Name string
	// Vendor is "nvidia", "amd", "intel", "huawei" or "google".
	Vendor string
	// MemoryMiB is the memory of the whole GPU.
	MemoryMiB int
}

// Known reports whether the model was recognised.
func (m Model) Known() bool { return m.Name != "" }

// Device is one physical GPU on a node.
type Device struct {
	UUID  string // "GPU-…", as the driver reports it; empty for unknown
	Index int    // driver index on the node, from 0
	Model Model
	// Health as the node reports it; the zero value is unknown.
	Health Health
}

// Health of a GPU. Unknown is neither healthy nor sick: capacity counts such a
// GPU, and no node is added or removed because of it.
type Health uint8

// Health values.
const (
	HealthUnknown Health = iota
	Healthy
	Sick
)

// String returns the word used in labels and scenario files.
func (h Health) String() string {
	switch h {
	case Healthy:
		return "healthy"
	case Sick:
		return "sick"
	default:
		return "unknown"
	}
}
