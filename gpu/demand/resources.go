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
// integer value of the quantity. A pod is read container by container and put
// together with Sum and Max: dialects that mean a part of each of several cards
// cannot be told from the sum of a pod's resources. Names that are no accelerator are passed over.
// The error names the resource and why it cannot be read: negative, absurd, two
// dialects or vendors at once, a size that the dialect does not allow.
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

// gathered is what the resources of a container say, dialect by dialect.
type gathered struct {
	vendor, vendorOf string // and the resource that said so
	family           family
	familyOf         string

	cards     int64
	shares    int64
	coreCards int64  // hundredths
	core      int64  // hundredths, of each card
	memory    int64  // MiB
	share     int64  // of memory, hundredths
	within    string // the resource that is a part of cards asked for beside it
	mig       []Instances
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
		return fmt.Errorf("has no size that is known")
	case n < 0 || n > maxAmount && d.kind != within: // which may be in bytes
		return fmt.Errorf("amount %d is not possible", n)
	case g.vendor != "" && g.vendor != d.vendor:
		return fmt.Errorf("is from another vendor than %s", g.vendorOf)
	case g.family != family{} && g.family != d.family:
		return fmt.Errorf("contradicts %s: two ways to share cards in one container", g.familyOf)
	}
	g.vendor, g.vendorOf, g.family, g.familyOf = d.vendor, resource, d.family, resource
	if isMIG {
		return g.addMIG(name, n)
	}
	switch d.kind {
	case cards:
		g.cards += n
	case shares:
		g.shares += n
	case coreCards:
		g.coreCards += n
	case corePercent:
		g.core += n
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

// named is a number of instances of a profile that has only been named.
func named(name mig.Name, n int) Instances {
	return Instances{
		Name: name.String(), Profile: mig.Profile{Compute: name.Compute, Attrs: name.Attrs}, MemoryGB: name.GB, Count: n,
	}
}

// demand makes one Demand of what was gathered.
func (g *gathered) demand() (Demand, error) {
	slices.SortFunc(g.mig, Instances.compare)
	d := Demand{Cards: int(g.cards), MIG: g.mig}
	if g.within != "" && g.cards == 0 {
		return Demand{}, fmt.Errorf("resource %s: of how many cards is not said", g.within)
	}
	var err error
	if g.family.each {
		err = g.partsOfCards(&d)
	} else {
		err = g.partsOfOne(&d)
	}
	if err != nil {
		return Demand{}, err
	}
	if d.Cards > 0 || d.Fraction != nil {
		d.Vendor = g.vendor
	}
	return d, nil
}

// partsOfOne reads the dialects that count a card's compute in hundredths: less
// than a hundred is a part of one card, whole hundreds are whole cards. Qgpu also
// has equal parts of several cards, rounded down.
func (g *gathered) partsOfOne(d *Demand) error {
	n := (g.coreCards + 99) / 100
	switch {
	case g.coreCards >= 100 && g.coreCards%100 == 0:
		d.Cards = int(n)
	case g.coreCards > 100 && g.family.several:
		d.Fraction = &Fraction{CoreMilli: int(g.coreCards/n) * 10, MemoryMiB: int(g.memory / 1024 / n * 1024), Cards: int(n)}
	case g.coreCards > 100:
		return fmt.Errorf("resource %s: %d hundredths of a card: want less than 100, or whole hundreds", g.familyOf, g.coreCards)
	case g.coreCards > 0 || g.memory > 0:
		d.Fraction = &Fraction{CoreMilli: int(g.coreCards) * 10, MemoryMiB: int(g.memory), Cards: 1}
	}
	return nil
}

// partsOfCards reads HAMi and Volcano, whose nvidia.com/gpu and vgpu-number count
// the cards a container takes an equal part of as soon as it says how large the
// part is, and shared replicas, which are one place on a card each and say nothing
// of its size.
func (g *gathered) partsOfCards(d *Demand) error {
	parts := g.core > 0 || g.memory > 0 || g.share > 0
	switch {
	case g.core > 100 || g.share > 100:
		return fmt.Errorf("resource %s: more than 100 hundredths of a card", g.familyOf)
	case parts && g.shares > 0:
		return fmt.Errorf("resource nvidia.com/gpu.shared: cannot be cut further")
	case g.shares > 0:
		d.Fraction = &Fraction{Cards: 1}
	case g.core == 100 || g.share == 100: // all of each card: nobody fits beside it
		d.Cards = max(1, d.Cards)
	case parts:
		d.Fraction = &Fraction{
			CoreMilli: int(g.core) * 10, MemoryMiB: int(g.memory), MemoryMilli: int(g.share) * 10,
			Cards: max(1, d.Cards),
		}
		d.Cards = 0
	}
	return nil
}
