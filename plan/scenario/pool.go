package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

func readPool(r *reader, p *plan.Pool) {
	r.int("min", &p.Min)
	r.int("max", &p.Max)
	r.float("price", &p.PricePerHour)
	r.flag("spot", &p.Spot)
	r.off("on-demand", &p.Spot)
	r.float("interruptions", &p.InterruptionsPerHour)
	r.duration("ready-after", &p.ReadyAfter)
	r.duration("idle-after", &p.IdleAfter)
	r.in("backoff", &p.BackoffUntil)
	r.flag("freeze", &p.Freeze)
	r.off("thaw", &p.Freeze)
	r.flag("fixed", &p.Fixed)
	r.text("repartition", func(s string) error {
		switch s {
		case "no", "idle", "keep-busy":
			p.MIG.Repartition, p.MIG.KeepsBusy = s != "no", s == "keep-busy"
			return nil
		}
		return fmt.Errorf("want no, idle or keep-busy: %q", s)
	})
	r.duration("mig-idle-after", &p.MIG.IdleAfter)
	r.duration("mig-duration", &p.MIG.Duration)
	t := &p.Template
	readLabels(r, "labels", &t.Labels)
	readTaints(r, &t.Taints)
	readOthers(r, &t.Others)
	r.quantity("cpu", &t.CPUMilli, cpuUnits)
	r.quantity("memory", &t.MemoryMi, memoryUnits)
	n := -1
	if r.int("gpus", &n) {
		if n < 0 || n > maxCards {
			r.fail("gpus", "want 0 … %d", maxCards)
			n = 0
		}
		card := plan.Card{HoldersKnown: true}
		readCard(r, &card)
		t.Cards = nil
		for i := range n {
			c := card
			c.Index = i
			t.Cards = append(t.Cards, c)
		}
	}
	model := ""
	if len(t.Cards) > 0 {
		model = t.Cards[0].Model.Name
	}
	var allowed []mig.Profile
	if r.items("mig-allowed", func(it item) error {
		a, err := parseProfile(model, it[0].name)
		allowed = append(allowed, a)
		return err
	}) {
		p.MIG.Allowed = allowed
	}
	r.flag("keeps-busy", &p.MIG.KeepsBusy)
}

// maxCards bounds what a line may ask for; no node has more.
const maxCards = 1024

func poolText(p plan.Pool, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %s min=%d max=%d target=%d size=%d", quote(p.Name), p.Min, p.Max, p.Target, p.Size)
	floatText(&b, "price", p.PricePerHour)
	flagText(&b, "spot", p.Spot)
	floatText(&b, "interruptions", p.InterruptionsPerHour)
	flagText(&b, "freeze", p.Freeze)
	flagText(&b, "fixed", p.Fixed)
	lengthText(&b, "ready-after", p.ReadyAfter)
	lengthText(&b, "idle-after", p.IdleAfter)
	inText(&b, "backoff", p.BackoffUntil, now)
	switch {
	case p.MIG.Repartition && p.MIG.KeepsBusy:
		b.WriteString(" repartition=keep-busy")
	case p.MIG.Repartition:
		b.WriteString(" repartition=idle")
	}
	flagText(&b, "keeps-busy", p.MIG.KeepsBusy && !p.MIG.Repartition)
	lengthText(&b, "mig-idle-after", p.MIG.IdleAfter)
	lengthText(&b, "mig-duration", p.MIG.Duration)
	resourcesText(&b, p.Template.CPUMilli, p.Template.MemoryMi)
	model := ""
	cards := p.Template.Cards
	if alike(cards) && len(cards) > 0 {
		fmt.Fprintf(&b, " gpus=%d%s", len(cards), cardText(cards[0], now))
		model = cards[0].Model.Name
	}
	if len(p.MIG.Allowed) > 0 {
		words := make([]string, len(p.MIG.Allowed))
		for i, a := range p.MIG.Allowed {
			words[i] = profileText(model, a)
		}
		b.WriteString(" mig-allowed=" + listText(words))
	}
	b.WriteString(labelsText("labels", p.Template.Labels))
	b.WriteString(taintsText(p.Template.Taints))
	b.WriteString(othersText(p.Template.Others))
	b.WriteByte('\n')
	if !alike(cards) {
		for _, c := range cards {
			fmt.Fprintf(&b, "gpu %s template%s\n", quote(fmt.Sprintf("%s/%d", p.Name, c.Index)), cardText(c, now))
		}
	}
	return b.String()
}

// alike reports whether cards can be written once, with their number.
func alike(cards []plan.Card) bool {
	if len(cards) > maxCards {
		return false
	}
	for i, c := range cards {
		if c.Index != i || !sameCard(c, cards[0]) {
			return false
		}
	}
	return true
}
