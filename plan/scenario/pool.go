package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

func readPool(r *reader, p *plan.Pool) {
	r.int("min", &p.Min)
	r.int("max", &p.Max)
	r.float("price", &p.PricePerHour)
	r.text("priority", func(s string) error {
		n, err := strconv.ParseInt(s, 10, 32)
		p.Priority = int32(n)
		return err
	})
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
	readPorts(r, &t.HostPorts)
	r.quantity("cpu", &t.CPUMilli, cpuUnits)
	r.quantity("memory", &t.MemoryMi, memoryUnits)
	n := -1
	if r.int("gpus", &n) {
		if n < 0 || n > maxGPUs {
			r.fail("gpus", "want 0 … %d", maxGPUs)
			n = 0
		}
		device := plan.GPU{AllocationKnown: true}
		readGPU(r, &device)
		t.GPUs = nil
		for i := range n {
			c := device
			c.Index = i
			t.GPUs = append(t.GPUs, c)
		}
	}
	model := ""
	if len(t.GPUs) > 0 {
		model = t.GPUs[0].Model.Name
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

// maxGPUs bounds the GPUs of one line; no node has more.
const maxGPUs = 1024

func poolText(p plan.Pool, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %s min=%d max=%d target=%d size=%d", quote(p.Name), p.Min, p.Max, p.Target, p.Size)
	floatText(&b, "price", p.PricePerHour)
	intText(&b, "priority", int(p.Priority))
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
	gpus := p.Template.GPUs
	if alike(gpus) && len(gpus) > 0 {
		fmt.Fprintf(&b, " gpus=%d%s", len(gpus), gpuText(gpus[0], now))
		model = gpus[0].Model.Name
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
	b.WriteString(portsText(p.Template.HostPorts))
	b.WriteByte('\n')
	if !alike(gpus) {
		for _, c := range gpus {
			fmt.Fprintf(&b, "gpu %s template%s\n", quote(fmt.Sprintf("%s/%d", p.Name, c.Index)), gpuText(c, now))
		}
	}
	return b.String()
}

// alike reports whether equal GPUs can be written once, with their number.
func alike(gpus []plan.GPU) bool {
	if len(gpus) > maxGPUs {
		return false
	}
	for i, c := range gpus {
		if c.Index != i || !sameGPU(c, gpus[0]) {
			return false
		}
	}
	return true
}
