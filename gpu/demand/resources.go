package demand

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// maxAmount bounds every amount: more than any cluster has, and small enough
// that no sum of them overflows.
const maxAmount = 1 << 24

// FromResources reads one container's extended resources: name → amount as the
// integer value of the quantity. A pod is read container by container and combined
// with Sum and Max: the sum of a pod's resources does not show parts of each of
// several GPUs. Resources that are no accelerator are skipped. The error names the
// resource and the problem: negative, too large, two dialects or vendors at once,
// a size that the dialect does not allow.
func FromResources(list map[string]int64) (Demand, error) {
	var g gathered
	// Sorted, so that the same list always gives the same error.
	for _, resource := range slices.Sorted(maps.Keys(list)) {
		if err := g.add(resource, list[resource]); err != nil {
			return Demand{}, fmt.Errorf("resource %s: %w", resource, err)
		}
	}
	return g.demand()
}

// gathered is the sum of a container's resources, by dialect.
type gathered struct {
	vendor, vendorOf string // and the resource that states it
	family           family
	familyOf         string

	gpus     int64
	shares   int64
	coreGPUs int64  // hundredths
	core     int64  // hundredths, of each GPU
	idle     int64  // hundredths, of compute that others leave idle
	memory   int64  // MiB
	share    int64  // of memory, hundredths
	within   string // the resource that is a part of GPUs requested beside it
	mig      []Instances
}

func (g *gathered) add(resource string, n int64) error {
	name, isMIG := mig.ProfileOfResource(resource)
	d := dialectOf(resource)
	if isMIG {
		d = dialect{kind: other, vendor: "nvidia", family: plugin}
	}
	switch {
	case d.vendor == "" || n == 0:
		return nil
	case d.kind == refused:
		return fmt.Errorf("has an unknown size")
	case n < 0 || n > maxAmount && d.kind != within: // which may be in bytes
		return fmt.Errorf("amount %d is not possible", n)
	case g.vendor != "" && g.vendor != d.vendor:
		return fmt.Errorf("is from another vendor than %s", g.vendorOf)
	case g.family != family{} && g.family != d.family:
		return fmt.Errorf("contradicts %s: two ways to share GPUs in one container", g.familyOf)
	}
	g.vendor, g.vendorOf, g.family, g.familyOf = d.vendor, resource, d.family, resource
	if isMIG {
		return g.addMIG(name, n)
	}
	switch d.kind {
	case gpus:
		g.gpus += n
	case shares:
		g.shares += n
	case coreGPUs:
		g.coreGPUs += n
	case corePercent:
		g.core += n
	case idleCore:
		g.idle += n
	case memoryMiB:
		if d.family.orMiB && n > mostGiB {
			d.unit = 1
		}
		g.memory += n * d.unit
	case memoryShare:
		g.share += n
	case within:
		g.within = resource
	}
	return nil
}

func (g *gathered) addMIG(name string, n int64) error {
	parsed, err := mig.ParseName(name)
	if err != nil {
		return err
	}
	g.mig = append(g.mig, named(parsed, int(n)))
	return nil
}

// named is a number of instances of a profile known by its name alone.
func named(name mig.Name, n int) Instances {
	return Instances{
		Name: name.String(), Profile: mig.Profile{Compute: name.Compute, Attrs: name.Attrs}, MemoryGB: name.GB, Count: n,
	}
}

// demand makes one Demand of what was gathered.
func (g *gathered) demand() (Demand, error) {
	slices.SortFunc(g.mig, Instances.compare)
	d := Demand{GPUs: int(g.gpus), MIG: g.mig}
	if g.within != "" && g.gpus == 0 {
		return Demand{}, fmt.Errorf("resource %s: the number of GPUs is not stated", g.within)
	}
	var err error
	if g.family.each {
		err = g.partsOfGPUs(&d)
	} else {
		err = g.partsOfOne(&d)
	}
	if err != nil {
		return Demand{}, err
	}
	if d.GPUs > 0 || d.Fraction != nil {
		d.Vendor = g.vendor
	}
	return d, nil
}

// partsOfOne reads the dialects that count a GPU's compute in hundredths: less
// than a hundred is a part of one GPU, whole hundreds are whole GPUs. Qgpu also
// has equal parts of several GPUs, rounded down.
func (g *gathered) partsOfOne(d *Demand) error {
	n := (g.coreGPUs + 99) / 100
	switch {
	case g.coreGPUs >= 100 && g.coreGPUs%100 == 0:
		d.GPUs = int(n)
	case g.coreGPUs > 100 && g.family.several:
		d.Fraction = &Fraction{CoreMilli: int(g.coreGPUs/n) * 10, MemoryMiB: int(g.memory / 1024 / n * 1024), GPUs: int(n)}
	case g.coreGPUs > 100:
		return fmt.Errorf("resource %s: %d hundredths of a GPU: want less than 100, or whole hundreds", g.familyOf, g.coreGPUs)
	case g.coreGPUs > 0 || g.memory > 0:
		d.Fraction = &Fraction{CoreMilli: int(g.coreGPUs) * 10, MemoryMiB: int(g.memory), GPUs: 1}
	case g.idle > 0: // of no memory: it has to count for something
		d.Fraction = &Fraction{CoreMilli: int(min(g.idle, 100)) * 10, GPUs: 1}
	}
	return nil
}

// partsOfGPUs reads HAMi and Volcano, whose nvidia.com/gpu and vgpu-number count
// the GPUs of which a container requests an equal part, where it states the size
// of the part; and shares, of unstated size.
func (g *gathered) partsOfGPUs(d *Demand) error {
	parts := g.core > 0 || g.memory > 0 || g.share > 0
	switch {
	case g.core > 100 || g.share > 100:
		return fmt.Errorf("resource %s: more than 100 hundredths of a GPU", g.familyOf)
	case parts && g.shares > 0:
		return fmt.Errorf("resource nvidia.com/gpu.shared: cannot be divided further")
	case g.shares > 0:
		d.Fraction = &Fraction{GPUs: int(g.shares)}
	case g.core == 100 || g.share == 100: // all of each GPU: nothing fits beside it
		d.GPUs = max(1, d.GPUs)
	case parts:
		d.Fraction = &Fraction{
			CoreMilli: int(g.core) * 10, MemoryMiB: int(g.memory), MemoryMilli: int(g.share) * 10,
			GPUs: max(1, d.GPUs),
		}
		if g.memory == 0 && g.share == 0 { // HAMi and volcano give all memory where none is stated
			d.Fraction.MemoryMilli = 1000
		}
		d.GPUs = 0
	}
	return nil
}
