package partition

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// namePrefix of gpuscale's configs; others are not changed.
const namePrefix = "gpuscale-"

// GPUResource is what the device plugin advertises for a GPU without MIG.
const GPUResource = "nvidia.com/gpu"

// NodeLayout is the layout of all GPUs of a node, by driver index, as mig-manager sees it: counts,
// never placements.
type NodeLayout []GPULayout

// GPULayout is one GPU of a NodeLayout.
type GPULayout struct {
	MIG    bool
	Counts map[string]int // instances by the driver's profile name; none for an empty GPU
}

// LayoutOf returns the layout of GPUs, which must be all GPUs of a node in any order; tables are what nodes have published.
// The error names the GPU with an invalid index or whose model has no table.
func (n Names) LayoutOf(tables mig.Tables, gpus []plan.GPU) (NodeLayout, error) {
	layout := make(NodeLayout, len(gpus))
	seen := make([]bool, len(gpus))
	for _, c := range gpus {
		if c.Index < 0 || c.Index >= len(gpus) || seen[c.Index] {
			return nil, fmt.Errorf("GPU %d: not one of GPUs 0 … %d", c.Index, len(gpus)-1)
		}
		seen[c.Index] = true
		device, err := layoutOf(tables, n, c)
		if err != nil {
			return nil, fmt.Errorf("GPU %d: %w", c.Index, err)
		}
		layout[c.Index] = device
	}
	return layout, nil
}

func layoutOf(tables mig.Tables, names Names, c plan.GPU) (GPULayout, error) {
	if !c.MIG {
		return GPULayout{}, nil
	}
	table, ok := tables.ForModel(c.Model.Name)
	if !ok {
		return GPULayout{}, fmt.Errorf("no MIG table for model %q", c.Model.Name)
	}
	return names.count(table, Placements(c))
}

// count returns a layout by its numbers of instances.
func (n Names) count(table *mig.Table, l mig.Layout) (GPULayout, error) {
	out := GPULayout{MIG: true, Counts: map[string]int{}}
	for _, p := range l {
		if !table.Has(p.Profile) {
			return GPULayout{}, fmt.Errorf("%s has no profile %s", table.Model(), p.Profile)
		}
		name, err := n.of(table, p.Profile)
		if err != nil {
			return GPULayout{}, err
		}
		out.Counts[name]++
	}
	return out, nil
}

// Placements of a GPU's instances, sorted.
func Placements(c plan.GPU) mig.Layout {
	l := make([]mig.Placement, len(c.Instances))
	for i, inst := range c.Instances {
		l[i] = inst.Placement
	}
	return mig.NewLayout(l...)
}

// With returns l with one GPU in layout target, which consists of the model's profiles, under these names.
func (l NodeLayout) With(tables mig.Tables, names Names, device int, model string, target mig.Layout) (NodeLayout, error) {
	table, ok := tables.ForModel(model)
	if !ok {
		return nil, fmt.Errorf("no MIG table for model %q", model)
	}
	if device < 0 || device >= len(l) {
		return nil, fmt.Errorf("GPU %d: not one of GPUs 0 … %d", device, len(l)-1)
	}
	gpu, err := names.count(table, target)
	if err = cmp.Or(table.Legal(target), err); err != nil {
		return nil, fmt.Errorf("GPU %d: %w", device, err)
	}
	out := slices.Clone(l)
	out[device] = gpu
	return out, nil
}

// Resources returns what the device plugin advertises for l under the mixed strategy, by extended
// resource name, without zero amounts.
func (l NodeLayout) Resources() map[string]int64 {
	out := map[string]int64{}
	for _, c := range l {
		if !c.MIG {
			out[GPUResource]++
		}
		for profile, n := range c.Counts {
			if n > 0 {
				out[mig.ResourceName(profile)] += int64(n)
			}
		}
	}
	return out
}

// Entries renders l for mig-parted: one entry for each distinct GPU layout, in the order of their
// first GPUs.
func (l NodeLayout) Entries() []Entry {
	var entries []Entry
	for i, c := range l {
		counts := maps.Clone(c.Counts)
		if counts == nil {
			counts = map[string]int{}
		}
		maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
		at := slices.IndexFunc(entries, func(e Entry) bool {
			return e.MIGEnabled == c.MIG && maps.Equal(e.MIGDevices, counts)
		})
		if at < 0 {
			entries = append(entries, Entry{MIGEnabled: c.MIG, MIGDevices: counts})
			at = len(entries) - 1
		}
		entries[at].Devices.Indices = append(entries[at].Devices.Indices, i)
	}
	return entries
}

// Name of the config for l: equal layouts have equal names, and a name is a valid label value.
func (l NodeLayout) Name() string {
	sum := sha256.Sum256([]byte(l.canonical()))
	return namePrefix + hex.EncodeToString(sum[:5])
}

func (l NodeLayout) canonical() string {
	var b strings.Builder
	for i, c := range l {
		fmt.Fprintf(&b, "%d:%t", i, c.MIG)
		for _, profile := range slices.Sorted(maps.Keys(c.Counts)) {
			if n := c.Counts[profile]; n > 0 {
				fmt.Fprintf(&b, " %s=%d", profile, n)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// SameOffer reports whether two lists of devices by resource name, both of one product, are equal. Drivers round memory
// in profile names differently ("mig-3g.39gb" is "mig-3g.40gb"), so names are compared as profiles.
func SameOffer(a, b map[string]int64) bool {
	total := int64(0)
	for name, n := range a {
		if sumOf(a, name) != sumOf(b, name) {
			return false
		}
		total += n
	}
	for _, n := range b {
		total -= n
	}
	return total == 0
}

// OfferText is an offer as displayed, in the order of the resources' names.
func OfferText(devices map[string]int64) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		out = append(out, fmt.Sprintf("%d %s", devices[name], name))
	}
	return cmp.Or(strings.Join(out, ", "), "no MIG devices")
}

// sumOf sums the devices with this name or another spelling of it.
func sumOf(devices map[string]int64, name string) int64 {
	profile, isMIG := mig.ProfileOfResource(name)
	total := int64(0)
	for other, n := range devices {
		q, ok := mig.ProfileOfResource(other)
		if other == name || isMIG && ok && mig.SameProfile(profile, q) {
			total += n
		}
	}
	return total
}

// Labels of GFD and the GPU Operator on a node with NVIDIA GPUs.
const (
	PresentLabel  = "nvidia.com/gpu.present"
	ProductLabel  = "nvidia.com/gpu.product"
	CountLabel    = "nvidia.com/gpu.count"
	MemoryLabel   = "nvidia.com/gpu.memory"           // of a GPU, in MiB
	ReplicasLabel = "nvidia.com/gpu.replicas"         // of each GPU, where they are shared
	SharingLabel  = "nvidia.com/gpu.sharing-strategy" // "none", "time-slicing" or "mps"
	CapableLabel  = "nvidia.com/mig.capable"
	StrategyLabel = "nvidia.com/mig.strategy"
)

// SharedSuffix is the end of ProductLabel where GPUs are shared under the name of whole GPUs.
const SharedSuffix = "-SHARED"

// SharedResource is what the device plugin advertises for GPUs that it shares with renameByDefault.
const SharedResource = GPUResource + ".shared"

// Names are a node's own names of MIG profiles. mig-parted compares names as strings, GPU by GPU. It destroys the
// instances of a GPU whose names differ from the config's, so the config for a node must use the node's own spelling.
// The zero value has the tables' names, for layouts that are not written.
type Names struct {
	node      string
	offered   []string // the device plugin's, sorted
	memoryMiB int      // of the GPUs that GFD reports; 0 for not known
}

// NamesOn returns the names on a node: those that its device plugin advertises.
func NamesOn(node *corev1.Node) Names {
	n := Names{node: node.Name}
	for _, resource := range slices.Sorted(maps.Keys(Advertised(node))) {
		if name, ok := mig.ProfileOfResource(resource); ok {
			n.offered = append(n.offered, name)
		}
	}
	if mib, err := strconv.Atoi(strings.TrimSpace(node.Labels[MemoryLabel])); err == nil {
		n.memoryMiB = max(mib, 0)
	}
	return n
}

// of returns what the node's driver calls profile p of a product. It returns an error where that is not certain: the
// node does not offer p, and its driver may use another of several names.
func (n Names) of(table *mig.Table, p mig.Profile) (string, error) {
	if n.node == "" {
		return table.Name(p), nil
	}
	if spelled := n.offeredAs(table, p); len(spelled) > 1 {
		return "", fmt.Errorf("node %s advertises MIG profile %s as %s: the driver's name of it is uncertain", n.node, p, strings.Join(spelled, " and "))
	} else if len(spelled) == 1 {
		return spelled[0], nil
	}
	return n.derived(table, p)
}

// offeredAs returns the names by which the node advertises p.
func (n Names) offeredAs(table *mig.Table, p mig.Profile) []string {
	var out []string
	for _, name := range n.offered {
		if q, err := table.Lookup(name); err == nil && q == p {
			out = append(out, name)
		}
	}
	return out
}

// agrees reports whether the node advertises all its profiles by the table's names. Otherwise the table is of another
// driver.
func (n Names) agrees(table *mig.Table) bool {
	for _, name := range n.offered {
		if p, err := table.Lookup(name); err == nil && table.Name(p) != name {
			return false
		}
	}
	return true
}

// derived returns the name of a profile that the node does not offer, as NVIDIA's programs derive it from the GPU's
// memory (go-nvlib pkg/nvlib/device: getMigMemorySizeGB). The product must be known to have that name. Without the
// memory it is the product's name, if there is only one.
func (n Names) derived(table *mig.Table, p mig.Profile) (string, error) {
	names := table.Names(p)
	unsure := func(why string) (string, error) {
		return "", fmt.Errorf("node %s: what its driver calls MIG profile %s of %s is uncertain (%s): mig-manager destroys instances for a name that the driver does not have; the product's names are %s",
			n.node, p, table.Model(), why, strings.Join(names, ", "))
	}
	if n.memoryMiB == 0 {
		if len(names) == 1 && n.agrees(table) {
			return names[0], nil
		}
		return unsure("the node does not offer it and has no label " + MemoryLabel)
	}
	name := mig.Name{Compute: p.Compute, GB: gigabytes(n.memoryMiB, p.Memory, table.MemorySlices()), Attrs: p.Attrs}.String()
	for _, offered := range n.offered {
		q, err := table.Lookup(offered)
		if err != nil {
			continue
		}
		if as := (mig.Name{Compute: q.Compute, GB: gigabytes(n.memoryMiB, q.Memory, table.MemorySlices()), Attrs: q.Attrs}); as.String() != offered {
			return unsure("the node advertises " + offered + " where its memory gives " + as.String())
		}
	}
	if !slices.Contains(names, name) {
		return unsure("its memory gives " + name)
	}
	return name, nil
}

// gigabytes is the size in the name of a profile with slices of a GPU's memory slices. The share of slices is rounded
// up to whole eighths, the memory to whole GiB, and their product to the nearest number: 81559 MiB are 80 GiB, of which
// 4 of 8 slices are 40.
func gigabytes(memoryMiB, slices, of int) int {
	eighths := (slices*8 + of - 1) / of
	gib := (memoryMiB + 1023) / 1024
	return int(math.Round(float64(eighths*gib) / 8))
}
