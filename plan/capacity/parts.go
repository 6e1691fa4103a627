package capacity

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
)

// legible reports whether what is said of a card can be true: a MIG card has a
// table, and its instances a place on it together.
func legible(c *plan.Card) bool {
	if !c.MIG {
		return len(c.Instances) == 0
	}
	t, ok := mig.ForModel(c.Model.Name)
	if !ok || len(c.Holders) > 0 {
		return false
	}
	l, placed := layoutOf(c)
	if !placed {
		_, ok = t.Arrange(nil, mig.Counts(l))
		return ok
	}
	return t.Legal(l) == nil
}

// layoutOf returns a card's instances; placed is false where it is not known for
// all of them where they lie.
func layoutOf(c *plan.Card) (l mig.Layout, placed bool) {
	placed, l = true, make(mig.Layout, 0, len(c.Instances))
	for i := range c.Instances {
		l = append(l, c.Instances[i].Placement)
		placed = placed && c.Instances[i].Placed
	}
	return mig.NewLayout(l...), placed
}

// takeApart fills in the parts of a card.
func (b *builder) takeApart(c *Card, source *plan.Card) {
	switch {
	case c.State == Unknown, !legible(source) || !source.HoldersKnown:
		// Whoever holds it, nothing can be said of its parts.
		c.Parts = []Part{{State: c.State, Size: wholeCard}}
	case source.MIG:
		b.instances(c, source)
	default:
		b.sharers(c, source)
	}
}

// instances makes a part of every instance, and of what they leave.
func (b *builder) instances(c *Card, source *plan.Card) {
	t, _ := mig.ForModel(c.Model)
	rest := wholeCard
	layout, placed := layoutOf(source)
	c.mig, c.placed = true, placed
	c.Parts = make([]Part, 0, len(source.Instances)+2) // and what they leave
	for i := range source.Instances {
		in := &source.Instances[i]
		p := Part{State: c.State, Size: sizeOf(t, in.Profile), Profile: in.Profile}
		if in.Holder != "" {
			b.hold(&p, c.State, in.Holder, in.Busy)
			c.held = append(c.held, in.Placement)
		}
		c.Parts = append(c.Parts, p)
		rest = rest.minus(p.Size)
	}
	c.held = mig.NewLayout(c.held...)
	slices.SortStableFunc(c.Parts, func(p, q Part) int { return q.Profile.Compare(p.Profile) })
	if c.State != Free {
		c.addRest(c.State, NoCause, rest)
		return
	}
	uncut := b.fits.extension(t, layout, placed)
	c.addRest(Fragmented, Uncut, uncut)
	c.addRest(Fragmented, Odd, rest.minus(uncut))
}

func (c *Card) addRest(s State, cause Cause, size Size) {
	if !size.zero() {
		c.Parts = append(c.Parts, Part{State: s, Cause: cause, Size: size})
	}
}

// sharers makes a part of every pod's share of a card without MIG. Pods that ask
// for stated fractions hold those; any others hold equal shares of the card.
func (b *builder) sharers(c *Card, source *plan.Card) {
	holders := slices.Clone(source.Holders)
	slices.Sort(holders)
	sizes, ok := b.fractions(holders, source.Model.MemoryMiB)
	rest := wholeCard
	for i, holder := range holders {
		p := Part{State: c.State}
		if ok {
			p.Size = sizes[i]
		} else {
			p.Size = equalShare(i, len(holders))
		}
		b.hold(&p, c.State, holder, source.Busy)
		c.Parts = append(c.Parts, p)
		rest = rest.minus(p.Size)
	}
	c.addRest(c.State, NoCause, rest)
}

// fractions returns what each holder asked for; false unless all asked for
// fractions of stated size that fit one card together.
func (b *builder) fractions(holders []string, cardMiB int) ([]Size, bool) {
	sizes := make([]Size, len(holders))
	var sum Size
	for i, holder := range holders {
		pod := b.pods[holder]
		if pod == nil || pod.Demand.Fraction == nil {
			return nil, false
		}
		var ok bool
		if sizes[i], ok = fractionSize(pod, cardMiB); !ok {
			return nil, false
		}
		sum = sum.plus(sizes[i])
	}
	return sizes, len(holders) > 0 && sum.Compute <= CardShares && sum.Memory <= CardShares
}

// fractionSize is a pod's fraction of a card. Of what is not stated it takes as
// much as of what is. It is false where nothing is stated, or more than a card.
func fractionSize(p *plan.Pod, cardMiB int) (Size, bool) {
	f := p.Demand.Fraction
	s := Size{Compute: shares(f.CoreMilli, 1000), Memory: shares(f.MemoryMilli, 1000)}
	if cardMiB > 0 {
		s.Memory = max(s.Memory, shares(f.MemoryMiB, cardMiB))
	}
	if s.Compute == 0 {
		s.Compute = s.Memory
	}
	if s.Memory == 0 {
		s.Memory = s.Compute
	}
	return s, s.Compute > 0 && s.Compute <= CardShares && s.Memory <= CardShares
}

// shares rounds up, so that a small part is not nothing; more than a card is one
// share more than a card.
func shares(part, of int) int {
	switch {
	case part <= 0:
		return 0
	case part > of:
		return CardShares + 1
	}
	return int((int64(part)*CardShares + int64(of) - 1) / int64(of))
}

// equalShare is the i-th of n shares that add up to a card.
func equalShare(i, n int) Size {
	size := (i+1)*CardShares/n - i*CardShares/n
	return Size{size, size}
}

// hold makes a part one that a pod holds. Where the card itself is out of
// service it stays out of it, and the holder is the one who suffers.
func (b *builder) hold(p *Part, card State, holder string, busy sample.Value) {
	p.State, p.Holder = Held, holder
	if card == Sick || card == Unready || card == Booting {
		p.State = card
	}
	p.Busy = busy.Fresh(b.rules.MaxBusyAge)
	if pod := b.pods[holder]; pod != nil {
		p.Tenant, p.Owner = pod.Tenant, pod.Owner
	}
}
