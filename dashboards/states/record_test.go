package states

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/plan"
)

// stepEvery is the simulated time between two reconciles of the autoscaler.
const stepEvery = 5 * time.Second

// recorder plays a story and scrapes its targets.
type recorder struct {
	cluster  *cluster
	machines map[string]*machine     // by node
	servers  map[string]*modelServer // by target
	selves   selves
	out      *recording
}

// record plays the story of a state.
func record(name string, selves selves) (*recording, error) {
	text, err := stories.ReadFile("stories/" + name + ".txt")
	if err != nil {
		return nil, err
	}
	parsed, err := parseStory(string(text))
	if err != nil {
		return nil, err
	}
	r := &recorder{cluster: newCluster(), machines: map[string]*machine{}, servers: map[string]*modelServer{}, selves: selves, out: &recording{}}
	if err := r.cluster.happen(parsed.chapters[0]); err != nil {
		return nil, err
	}
	if err := r.cluster.start(); err != nil {
		return nil, err
	}
	next := 1
	for after := time.Duration(0); after <= Length; after += stepEvery {
		for ; next < len(parsed.chapters) && parsed.chapters[next].at <= after; next++ {
			if err := r.cluster.happen(parsed.chapters[next]); err != nil {
				return nil, err
			}
		}
		if after > 0 { // the first reconcile has ended
			r.cluster.world.Sim.Advance(stepEvery)
			if err := r.cluster.reconcile(); err != nil {
				return nil, err
			}
		}
		if after%Every == 0 {
			if err := r.scrapeAll(begin.Add(after)); err != nil {
				return nil, err
			}
		}
	}
	return r.out, nil
}

// scrapeAll scrapes every target.
func (r *recorder) scrapeAll(at time.Time) error {
	if err := r.scrapeExporters(at); err != nil {
		return err
	}
	if err := r.scrapeServers(at, r.cluster.world.Sim.State.Pods); err != nil {
		return err
	}
	r.out.scrape(at, targetLabels("adapter", ""), aged(r.selves.adapter, at, 0))
	page, err := gather(r.cluster.registry)
	r.out.scrape(at, targetLabels("autoscaler", ""), page)
	return err
}

func (r *recorder) scrapeExporters(at time.Time) error {
	s := r.cluster.world.Sim.Snapshot()
	there := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		there[n.Name] = true
		if r.machines[n.Name] == nil {
			m, err := newMachine(n.Name)
			if err != nil {
				return err
			}
			r.machines[n.Name] = m
		}
		page, err := r.page(n, at)
		if err != nil {
			return err
		}
		r.out.scrape(at, targetLabels("exporter", n.Name), page)
	}
	for name := range r.machines {
		if !there[name] {
			r.out.gone(at, targetLabels("exporter", name))
			delete(r.machines, name)
		}
	}
	return nil
}

// page is nil where the target does not answer, by the story or because the node is not ready.
func (r *recorder) page(n *plan.Node, at time.Time) ([]memstore.Exposed, error) {
	if r.cluster.down || !n.Ready {
		return nil, nil
	}
	page, err := r.machines[n.Name].expose(r.cluster, n, at)
	if err != nil {
		return nil, err
	}
	return append(page, aged(r.selves.exporter, at, len(page))...), nil
}

// targetLabels are those of a ServiceMonitor, and the cluster's name, which users with
// several clusters add.
func targetLabels(program, node string) labels.Labels {
	pod, port := "gpuscale-"+program+"-0", "8080"
	if node != "" {
		pod, port = "gpuscale-"+program+"-"+node, "9400"
	}
	return labels.FromStrings("cluster", "east", "job", "gpuscale-"+program, "instance", pod+":"+port, "namespace", "gpuscale-system",
		"service", "gpuscale-"+program, "pod", pod, "container", program, "endpoint", "metrics")
}
