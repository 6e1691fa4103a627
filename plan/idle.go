package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// unusedLong is how long a card must have been held for nothing before its
// verdict says so.
const unusedLong = time.Hour

// unusedSince is since when a holder of an instance has not used it; zero for
// used, or not known. A card that is measured as a whole speaks for its instances.
func unusedSince(c *Card, in *Instance) time.Time {
	switch {
	case in.UnusedSince.IsZero():
		return c.UnusedSince
	case c.UnusedSince.IsZero():
		return in.UnusedSince
	}
	return later(in.UnusedSince, c.UnusedSince)
}

// idlers names who holds a card, or instances of it, without having used them
// for long, and how long the first of them has not; empty for nobody.
func (w *world) idlers(c *Card) string {
	var who []string
	longest := time.Duration(0)
	note := func(since time.Time, holders ...string) {
		if d := w.now.Sub(since); !since.IsZero() && d >= unusedLong {
			who, longest = append(who, holders...), max(longest, d)
		}
	}
	if !c.MIG && len(c.Holders) > 0 {
		note(c.UnusedSince, c.Holders...)
	}
	for i := range c.Instances {
		if in := &c.Instances[i]; in.Holder != "" {
			note(unusedSince(c, in), in.Holder)
		}
	}
	if len(who) == 0 {
		return ""
	}
	slices.Sort(who)
	return fmt.Sprintf("not used for %s by %s", short(longest), strings.Join(slices.Compact(who), ", "))
}

// holding is what a pod holds: how many cards and instances, since when it has
// used none of them, and whether any of it is used or not measured.
type holding struct {
	devices int
	since   time.Time
	used    bool
}

func (h *holding) add(since time.Time) {
	h.devices++
	h.used = h.used || since.IsZero()
	h.since = later(h.since, since)
}

// reclaimIdle asks pods to leave that hold what they have not used for as long as
// their tenant allows, the longest idle first. Of a gang all members must be idle.
func (w *world) reclaimIdle() {
	if w.doubt != "" || !slices.ContainsFunc(w.tenants, func(t Tenant) bool { return t.ReclaimIdle > 0 }) {
		return
	}
	type idler struct {
		pod  int
		idle time.Duration
	}
	held := w.holdings()
	idle := make([]time.Duration, len(w.running)) // 0 for a pod that is not
	working := map[string]bool{}                  // gangs
	for j, p := range w.running {
		idle[j] = w.idleFor(j, held[p.Key()])
		if p.Gang != "" && !p.Leaving && !w.idleEnough(p, idle[j]) {
			working[p.Gang] = true
		}
	}
	var all []idler
	for j, p := range w.running {
		if w.idleEnough(p, idle[j]) && !working[p.Gang] {
			all = append(all, idler{j, idle[j]})
		}
	}
	slices.SortStableFunc(all, func(a, b idler) int { return cmp.Compare(b.idle, a.idle) })
	for _, i := range all {
		w.takeIdle(i.pod, i.idle)
	}
}

// takeIdle asks one pod to leave, where that may be done now.
func (w *world) takeIdle(pod int, idle time.Duration) {
	p := w.running[pod]
	n := &w.nodes[w.runsOn[pod]]
	if n.pool < 0 || n.action >= 0 || n.tier != tierNow && n.since != PodLeaving ||
		!w.may(n.pool) || w.evicted >= w.policy.MaxEvictionsPerRound || !w.movable(p) {
		return
	}
	t := &w.tenants[w.tenantIndex(p)]
	w.evict(w.runsOn[pod], p, ReclaimIdle, fmt.Sprintf("%s has used nothing of what it holds for %s; %s takes that back after %s",
		p.Key(), short(idle), t.Name, short(t.ReclaimIdle)), "")
}

// idleEnough reports a pod idle for as long as its tenant allows.
func (w *world) idleEnough(p *Pod, idle time.Duration) bool {
	t := w.tenantIndex(p)
	return t >= 0 && w.tenants[t].ReclaimIdle > 0 && idle >= w.tenants[t].ReclaimIdle
}

// idleFor is how long a pod has used nothing it holds, 0 where it has, or where
// not all it asked for is known to be held by it and measured.
func (w *world) idleFor(pod int, h holding) time.Duration {
	p := w.running[pod]
	i := w.runsOn[pod]
	if i < 0 || h.devices == 0 || h.used || h.devices < devicesOf(p) || !w.nodes[i].holdersKnown() {
		return 0
	}
	return w.now.Sub(later(h.since, p.Created))
}

// devicesOf is how many cards and instances a pod asks for.
func devicesOf(p *Pod) int {
	n := clampCount(p.Demand.Cards)
	for i := range p.Demand.MIG {
		n += clampCount(p.Demand.MIG[i].Count)
	}
	if f := p.Demand.Fraction; f != nil {
		n += clampCount(max(f.Cards, 1))
	}
	return n
}

// holdings is what every holder holds, over all nodes.
func (w *world) holdings() map[string]holding {
	all := map[string]holding{}
	add := func(who string, since time.Time) {
		h := all[who]
		h.add(since)
		all[who] = h
	}
	for i := range w.nodes {
		for c := range w.nodes[i].Cards {
			card := &w.nodes[i].Cards[c]
			for _, h := range card.Holders {
				add(h, card.UnusedSince)
			}
			for j := range card.Instances {
				if in := &card.Instances[j]; in.Holder != "" {
					add(in.Holder, unusedSince(card, in))
				}
			}
		}
	}
	return all
}
