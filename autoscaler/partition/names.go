package partition

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Names are a node's own names of MIG profiles. mig-parted compares names as strings, GPU by GPU,
// and destroys the instances of a GPU whose names differ from the config's, so a config for a node
// has no other spelling. The zero value has the tables' names, for layouts that are not written.
type Names struct {
	node      string
	offered   []string // the device plugin's, sorted
	own       mig.Tables
	memoryMiB int // of the GPUs that GFD reports; 0 for not known
}

// NamesOn returns the names on a node: those that its device plugin advertises, and those that its
// agent has published.
func NamesOn(node *corev1.Node) Names {
	n := Names{node: node.Name}
	for _, resource := range slices.Sorted(maps.Keys(Advertised(node))) {
		if name, ok := mig.ProfileOfResource(resource); ok {
			n.offered = append(n.offered, name)
		}
	}
	// A table that cannot be read or contradicts itself has no names.
	if specs, err := contract.ParseTables(node.Annotations[contract.TableAnnotation]); err == nil {
		n.own, _ = mig.NewTables(specs...)
	}
	if mib, err := strconv.Atoi(strings.TrimSpace(node.Labels[MemoryLabel])); err == nil {
		n.memoryMiB = max(mib, 0)
	}
	return n
}

// of returns what the node's driver calls profile p of a product. The error is that this is not
// certain: the node does not offer p and its driver may use another of several names.
func (n Names) of(table *mig.Table, p mig.Profile) (string, error) {
	if n.node == "" {
		return table.Name(p), nil
	}
	if spelled := n.offeredAs(table, p); len(spelled) > 1 {
		return "", fmt.Errorf("node %s advertises MIG profile %s as %s: the driver's name of it is uncertain", n.node, p, strings.Join(spelled, " and "))
	} else if len(spelled) == 1 {
		return spelled[0], nil
	}
	if own, ok := n.own.Published(table.Model()); ok && own.Has(p) && n.agrees(own) {
		return own.Name(p), nil
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

// agrees reports whether the node advertises no profile by another name than table's: the table is
// then not of an earlier driver.
func (n Names) agrees(table *mig.Table) bool {
	for _, name := range n.offered {
		if p, err := table.Lookup(name); err == nil && table.Name(p) != name {
			return false
		}
	}
	return true
}

// derived returns the name of a profile that the node does not offer, as NVIDIA's programs derive it
// from the GPU's memory (go-nvlib pkg/nvlib/device: getMigMemorySizeGB), if the product is known
// to have that name; without the memory, the product's name if it has only one.
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

// gigabytes in the name of a profile with some of a GPU's memory slices: whole eighths of the
// memory in GiB, rounded up before and to the nearest after.
func gigabytes(memoryMiB, slices, of int) int {
	eighths := (slices*8 + of - 1) / of
	gib := (memoryMiB + 1023) / 1024
	return int(math.Round(float64(eighths*gib) / 8))
}

// LayoutOf returns the layout of GPUs as the function LayoutOf does, with the node's own names.
func (n Names) LayoutOf(tables mig.Tables, gpus []plan.GPU) (NodeLayout, error) {
	return layoutWith(tables, n, gpus)
}
