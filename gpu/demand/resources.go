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
// integer value of the quantity. A pod must be read container by container and combined
// with Sum and Max, since the sum of its resources does not show parts of each of
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
	vendor, vendorOf string // vendorOf is a resource of the vendor
	family           family
	familyOf         string // a resource of the family

	sum    [refused]int64 // by kind; of memory in MiB
	within string         // the resource of kind within, empty for none
	mig    []Instances
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
	case n < 0 || n > maxAmount && d.kind != within: // within may be in bytes
		return fmt.Errorf("amount %d is not possible", n)
	case g.vendor != "" && g.vendor != d.vendor:
		return fmt.Errorf("is from another vendor than %s", g.vendorOf)
	case g.family != family{} && g.family != d.family:
		return fmt.Errorf("contradicts %s: two ways to share GPUs in one container", g.familyOf)
	}
	g.vendor, g.vendorOf, g.family, g.familyOf = d.vendor, resource, d.family, resource
	switch {
	case isMIG:
		parsed, _ := mig.ParseName(name) // ProfileOfResource has checked the name
		g.mig = append(g.mig, Named(parsed, int(n)))
		return nil
	case d.kind == within:
		g.within = resource
		return nil
	case d.kind == memoryMiB && !(d.family.orMiB && n > mostGiB):
		n *= d.unit
	}
	g.sum[d.kind] += n
	return nil
}

// Named returns n instances of a profile that is known only by its name.
func Named(name mig.Name, n int) Instances {
	return Instances{
		Name: name.String(), Profile: mig.Profile{Compute: name.Compute, Attrs: name.Attrs}, MemoryGB: name.GB, Count: n,
	}
}

// demand returns what was gathered as a Demand.
func (g *gathered) demand() (Demand, error) {
	slices.SortFunc(g.mig, Instances.compare)
	d := Demand{GPUs: int(g.sum[gpus]), MIG: g.mig}
	if g.within != "" && g.sum[gpus] == 0 {
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
// than a hundred is a part of one GPU, whole hundreds are whole GPUs. qGPU also
// has equal parts of several GPUs, each rounded down.
func (g *gathered) partsOfOne(d *Demand) error {
	n := (g.sum[coreGPUs] + 99) / 100
	switch {
	case g.sum[coreGPUs] >= 100 && g.sum[coreGPUs]%100 == 0:
		d.GPUs = int(n)
	case g.sum[coreGPUs] > 100 && g.family.several:
		d.Fraction = &Fraction{CoreMilli: int(g.sum[coreGPUs]/n) * 10, MemoryMiB: int(g.sum[memoryMiB] / 1024 / n * 1024), GPUs: int(n)}
	case g.sum[coreGPUs] > 100:
		return fmt.Errorf("resource %s: %d hundredths of a GPU: want less than 100, or whole hundreds", g.familyOf, g.sum[coreGPUs])
	case g.sum[coreGPUs] > 0 || g.sum[memoryMiB] > 0:
		d.Fraction = &Fraction{CoreMilli: int(g.sum[coreGPUs]) * 10, MemoryMiB: int(g.sum[memoryMiB]), GPUs: 1}
	case g.sum[idleCore] > 0: // it reserves nothing, but the demand must not be zero
		d.Fraction = &Fraction{CoreMilli: int(min(g.sum[idleCore], 100)) * 10, GPUs: 1}
	}
	return nil
}

// partsOfGPUs reads the dialects of HAMi and Volcano, and shares. A container that states
// the size of a part requests such a part of each of several GPUs; nvidia.com/gpu or
// volcano.sh/vgpu-number is their number. A share of memory counts only where no MiB are
// stated. More than 100 hundredths of compute are 100 in HAMi; Volcano finds no GPU for them.
func (g *gathered) partsOfGPUs(d *Demand) error {
	if g.sum[memoryMiB] > 0 {
		g.sum[memoryShare] = 0
	}
	if g.family == plugin {
		g.sum[corePercent] = min(g.sum[corePercent], 100)
	}
	parts := g.sum[corePercent] > 0 || g.sum[memoryMiB] > 0 || g.sum[memoryShare] > 0
	switch {
	case g.sum[corePercent] > 100 || g.sum[memoryShare] > 100:
		return fmt.Errorf("resource %s: more than 100 hundredths of a GPU", g.familyOf)
	case parts && g.sum[shares] > 0:
		return fmt.Errorf("resource nvidia.com/gpu.shared: cannot be divided further")
	case g.sum[shares] > 0:
		d.Fraction = &Fraction{GPUs: int(g.sum[shares])}
	case g.sum[corePercent] == 100 || g.sum[memoryShare] == 100: // all of each GPU: nothing fits beside it
		d.GPUs = max(1, d.GPUs)
	case parts:
		d.Fraction = &Fraction{
			CoreMilli: int(g.sum[corePercent]) * 10, MemoryMiB: int(g.sum[memoryMiB]), MemoryMilli: int(g.sum[memoryShare]) * 10,
			GPUs: max(1, d.GPUs),
		}
		if g.sum[memoryMiB] == 0 && g.sum[memoryShare] == 0 { // HAMi and volcano give all memory where none is stated
			d.Fraction.MemoryMilli = 1000
		}
		d.GPUs = 0
	}
	return nil
}
