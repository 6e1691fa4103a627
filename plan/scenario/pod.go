package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// readPod reads a pod's fields over what it already is.
func readPod(r *reader, p *plan.Pod) {
	p.Unschedulable = p.Node == ""
	if r.string("node", &p.Node) {
		p.Unschedulable = p.Node == ""
	}
	r.flag("unschedulable", &p.Unschedulable)
	r.off("unmarked", &p.Unschedulable)
	if r.ago("pending", &p.PendingSince) {
		p.Created = p.PendingSince
	}
	r.ago("age", &p.Created)
	r.flag("unmade", &p.Unmade)
	r.off("made", &p.Unmade)
	if r.in("leaving", &p.LeavesAt) {
		p.Leaving = true
	}
	staying := false
	if r.flag("staying", &staying); staying {
		p.Leaving, p.LeavesAt = false, time.Time{}
	}
	r.flag("evictable", &p.Evictable)
	r.flag("local-storage", &p.LocalStorage)
	r.in("evict-from", &p.EvictFrom)
	readBudgets(r, &p.Budgets)
	r.flag("daemonset", &p.DaemonSet)
	readPartsOn(r, &p.PartsOn)
	readShape(r, p)
}

// readShape reads a pod's requests, placement rules and tenant: what a replica
// that does not exist yet has too.
func readShape(r *reader, p *plan.Pod) {
	var d demand.Demand
	if r.items("requests", func(it item) error { return readRequest(it, &d) }) {
		p.Demand = d
	}
	r.string("unreadable", &p.Unreadable)
	r.string("owner", &p.Owner)
	r.text("priority", func(s string) error {
		n, err := strconv.ParseInt(s, 10, 32)
		p.Priority = int32(n)
		return err
	})
	r.quantity("cpu", &p.CPUMilli, cpuUnits)
	r.quantity("memory", &p.MemoryMi, memoryUnits)
	readLabels(r, "selector", &p.NodeSelector)
	readAffinity(r, &p.Affinity)
	readTolerations(r, &p.Tolerations)
	readOthers(r, &p.Others)
	readPorts(r, &p.HostPorts)
	readVolumes(r, &p.Volumes)
	readData(r, &p.Data)
	r.string("unbound", &p.Unbound)
	readRules(r, p)
	r.string("tenant", &p.Tenant)
	r.string("gang", &p.Gang)
	r.int("gang-min", &p.GangMin)
}

// readData reads data=(LABEL …).
func readData(r *reader, v *[]string) {
	var out []string
	if r.items("data", func(it item) error { out = append(out, it[0].name); return nil }) {
		*v = out
	}
}

// readPartsOn reads parts-on=(0 1).
func readPartsOn(r *reader, v *[]int) {
	var out []int
	if r.items("parts-on", func(it item) error {
		if len(it) != 1 {
			return fmt.Errorf("a GPU is its index")
		}
		n, err := strconv.ParseUint(it[0].name, 10, 16)
		out = append(out, int(n))
		return err
	}) {
		*v = out
	}
}

// readBudgets reads budgets=(namespace/name:allowed=1 …).
func readBudgets(r *reader, v *[]plan.Budget) {
	var out []plan.Budget
	if r.items("budgets", func(it item) error {
		if len(it) != 2 || it[1].name != "allowed" {
			return fmt.Errorf("a budget is namespace/name:allowed=1")
		}
		n, err := strconv.Atoi(it[1].value)
		out = append(out, plan.Budget{Name: it[0].name, Allowed: n})
		return err
	}) {
		*v = out
	}
}

func podText(p plan.Pod, now time.Time) string {
	var b strings.Builder
	b.WriteString("pod " + quote(p.Key()))
	b.WriteString(demandText("requests", p.Demand))
	stringText(&b, "unreadable", p.Unreadable)
	stringText(&b, "node", p.Node)
	flagText(&b, "unschedulable", p.Unschedulable && p.Node != "")
	flagText(&b, "unmarked", !p.Unschedulable && p.Node == "")
	b.WriteString(" pending=" + quote(timeText(p.PendingSince, now, -1)))
	if !p.Created.Equal(p.PendingSince) {
		b.WriteString(" age=" + quote(timeText(p.Created, now, -1)))
	}
	flagText(&b, "unmade", p.Unmade)
	if p.Leaving {
		b.WriteString(" leaving=" + quote(timeText(p.LeavesAt, now, 1)))
	}
	b.WriteString(shapeText(p))
	flagText(&b, "evictable", p.Evictable)
	flagText(&b, "local-storage", p.LocalStorage)
	inText(&b, "evict-from", p.EvictFrom, now)
	b.WriteString(budgetsText(p.Budgets))
	flagText(&b, "daemonset", p.DaemonSet)
	words := make([]string, len(p.PartsOn))
	for i, n := range p.PartsOn {
		words[i] = strconv.Itoa(n)
	}
	b.WriteString(wordsText("parts-on", words))
	b.WriteByte('\n')
	return b.String()
}

// shapeText writes what readShape reads, without the demand.
func shapeText(p plan.Pod) string {
	var b strings.Builder
	intText(&b, "priority", int(p.Priority))
	stringText(&b, "owner", p.Owner)
	resourcesText(&b, p.CPUMilli, p.MemoryMi)
	b.WriteString(labelsText("selector", p.NodeSelector))
	b.WriteString(affinityText(p.Affinity))
	b.WriteString(tolerationsText(p.Tolerations))
	b.WriteString(othersText(p.Others))
	b.WriteString(portsText(p.HostPorts))
	b.WriteString(volumesText(p.Volumes))
	if len(p.Data) > 0 {
		b.WriteString(" data=" + listText(p.Data))
	}
	stringText(&b, "unbound", p.Unbound)
	b.WriteString(rulesText(p))
	stringText(&b, "tenant", p.Tenant)
	stringText(&b, "gang", p.Gang)
	intText(&b, "gang-min", p.GangMin)
	return b.String()
}

func budgetsText(budgets []plan.Budget) string {
	words := make([]string, len(budgets))
	for i, v := range budgets {
		words[i] = fmt.Sprintf("%s:allowed=%d", quote(v.Name), v.Allowed)
	}
	return wordsText("budgets", words)
}
