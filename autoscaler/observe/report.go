package observe

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// reportedGPU is an agent's report of a GPU. Its allocations are left out: the report may be
// minutes old.
type reportedGPU struct {
	known     bool // else the agent cannot read the GPU
	uuid      string
	model     gpu.Model // empty for an unknown product
	mig       bool
	instances []plan.Instance
}

// reported returns the report of the node's agent, by driver index, nil without one. The error is why it is not trusted:
// it contradicts something else that is known of the node.
func reported(in nodeInput) (map[int]reportedGPU, error) {
	if in.node.Annotations[contract.LayoutAnnotation] == "" {
		return nil, nil
	}
	if in.facts.reportErr != nil {
		return nil, in.facts.reportErr
	}
	p := in.facts.report
	if err := p.Stale(in.node, in.now); err != nil {
		return nil, err
	}
	contradicts := func(format string, args ...any) error {
		return fmt.Errorf("annotation %s: %s", contract.LayoutAnnotation, fmt.Sprintf(format, args...))
	}
	if len(p.GPUs) == 0 {
		return nil, contradicts("no GPUs: %s", p.Problem)
	}
	if n, err := strconv.Atoi(in.node.Labels[partition.CountLabel]); err == nil && !in.facts.asGPUs && n != len(p.GPUs) {
		return nil, contradicts("%d GPUs, label %s says %d", len(p.GPUs), partition.CountLabel, n)
	}
	out := map[int]reportedGPU{}
	offer := map[string]int64{}
	for _, c := range p.GPUs {
		device := reportedGPU{uuid: c.UUID, mig: c.MIG}
		device.model, _ = in.model(c.Model, 0)
		l, known, err := c.Layout(in.Tables)
		if err != nil {
			return nil, contradicts("GPU %d: %v", c.Index, err)
		}
		if r := in.readingOf(c.Index); r != nil && r.is.value.uuid != "" && c.UUID != "" && r.is.value.uuid != c.UUID {
			return nil, contradicts("GPU %d is %s, the exporter says %s", c.Index, c.UUID, r.is.value.uuid)
		}
		table, ok := in.Tables.ForModel(c.Model)
		if device.known = known && (ok || len(l) == 0); device.known {
			for _, i := range l {
				offer[mig.ResourceName(table.Name(i.Profile))]++
			}
			device.instances = reportedInstances(c, l)
		}
		out[c.Index] = device
	}
	have := in.facts.instances
	switch {
	case beingRepartitioned(in.node) || partition.SameOffer(have, offer):
		return out, nil
	case !in.facts.devices:
		return nil, nil // the device plugin has not registered yet
	}
	return nil, contradicts("the layout gives %s, the device plugin offers %s", partition.OfferText(offer), partition.OfferText(have))
}

// reportedInstances returns the instances of a GPU at their reported placements.
func reportedInstances(c contract.GPUReport, l mig.Layout) []plan.Instance {
	out := make([]plan.Instance, len(l))
	for i, place := range l {
		out[i] = plan.Instance{Placement: place, Placed: true}
		for _, r := range c.Instances {
			if r.Place == place.String() {
				out[i].UUID = r.UUID
			}
		}
	}
	return out
}

// beingRepartitioned reports whether a GPU of the node is being repartitioned: the device plugin's
// offer is then stale or empty.
func beingRepartitioned(n *corev1.Node) bool {
	_, repartitioning := n.Annotations[contract.RecordAnnotation]
	return repartitioning
}

// readingOf returns the exporter's samples of a GPU, nil for none.
func (in nodeInput) readingOf(index int) *deviceReading {
	if in.reading == nil || !in.reading.gpus[index].usable() {
		return nil
	}
	return in.reading.gpus[index]
}

// fromReport gives GPUs the layouts of the agent's report; false without a report. Allocations are
// unknown.
func fromReport(in nodeInput, gpus []plan.GPU, report map[int]reportedGPU) bool {
	if len(report) == 0 {
		return false
	}
	isMIG := len(in.facts.instances) > 0
	for i := range gpus {
		c, r := &gpus[i], report[gpus[i].Index]
		forgetAllocations(c)
		c.MIG = isMIG
		if r.uuid != "" {
			c.UUID = r.uuid
		}
		if r.known {
			c.MIG, c.Instances = r.mig, slices.Clone(r.instances)
			if r.model.Name != "" { // the node's label names one product
				c.Model = r.model
			}
		}
	}
	return true
}

// place merges the agent's placements into the exporter's instances. An instance without a
// placement gets the agent's. Where the two differ one of them is stale, and it is unknown which.
func place(c *plan.GPU, r reportedGPU) {
	if !r.known {
		return
	}
	left := slices.Clone(r.instances)
	take := func(in *plan.Instance, is func(plan.Instance) bool) bool {
		at := slices.IndexFunc(left, func(s plan.Instance) bool { return s.Profile == in.Profile && is(s) })
		if at >= 0 {
			in.Placement, in.Placed = left[at].Placement, true
			left = slices.Delete(left, at, at+1)
		}
		return at >= 0
	}
	same := c.MIG == r.mig && len(c.Instances) == len(r.instances)
	for i := range c.Instances {
		in := &c.Instances[i]
		if in.Placed && !take(in, func(s plan.Instance) bool { return s.Start == in.Start }) {
			same = false
		}
	}
	for i := range c.Instances {
		if in := &c.Instances[i]; !in.Placed && in.UUID != "" {
			take(in, func(s plan.Instance) bool { return s.UUID == in.UUID })
		}
	}
	for i := range c.Instances {
		// The only unplaced instance of a profile has the profile's only remaining placement.
		if in := &c.Instances[i]; !in.Placed && unplacedOf(c, in.Profile) == 1 && !take(in, func(plan.Instance) bool { return true }) {
			same = false
		}
	}
	if !same {
		for i := range c.Instances {
			c.Instances[i].Placed = false
		}
		c.AllocationKnown = false
	}
	slices.SortFunc(c.Instances, func(a, b plan.Instance) int { return a.Placement.Compare(b.Placement) })
}

func unplacedOf(c *plan.GPU, p mig.Profile) int {
	n := 0
	for i := range c.Instances {
		if !c.Instances[i].Placed && c.Instances[i].Profile == p {
			n++
		}
	}
	return n
}

// allMIGEmpty reports whether the agent reports all GPUs in MIG mode without instances: such a node
// advertises nothing and is up all the same.
func allMIGEmpty(report map[int]reportedGPU) bool {
	for _, r := range report {
		if !r.known || !r.mig || len(r.instances) > 0 {
			return false
		}
	}
	return len(report) > 0
}

// products caches the MIG tables that nodes publish, and the model of each product name. They rarely change, reading
// them takes time, and every reconcile looks up the model of every GPU.
type products struct {
	mig.Tables
	from  []contract.Publication
	err   error
	known map[productName]productModel
}

// productName is a name and, if known, the GPU's memory in MiB.
type productName struct {
	name   string
	memory int
}

type productModel struct {
	gpu.Model
	ok bool
}

// read reads the tables of these nodes. The error names the nodes with an invalid table; the other
// tables are used.
func (p *products) read(nodes []corev1.Node) error {
	if from := contract.Publications(nodes); p.known == nil || !slices.Equal(from, p.from) {
		p.from, p.known = from, map[productName]productModel{}
		p.Tables, p.err = contract.TablesOf(from)
	}
	return p.err
}

// model returns Tables.Model(name, memory).
func (p *products) model(name string, memory int) (gpu.Model, bool) {
	key := productName{name, memory}
	found, ok := p.known[key]
	if !ok {
		found.Model, found.ok = p.Model(name, memory)
		p.known[key] = found
	}
	return found.Model, found.ok
}
