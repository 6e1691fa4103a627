package states

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/plan"
)

// stepEvery is the simulated time between two reconciles of the autoscaler.
const stepEvery = 5 * time.Second

// adapterEvery is the simulated time between two queries of one of the adapter's
// rules. They are most of the work of a recording.
const adapterEvery = time.Minute

// recorder plays a story and scrapes its targets.
type recorder struct {
	cluster  *cluster
	machines map[string]*machine     // by node
	servers  map[string]*modelServer // by target
	self     *self
	adapter  *server
	out      *recording
}

// record plays the story of a state.
func record(name string, exporter *self) (*recording, error) {
	text, err := stories.ReadFile("stories/" + name + ".txt")
	if err != nil {
		return nil, err
	}
	parsed, err := parseStory(string(text))
	if err != nil {
		return nil, err
	}
	r := &recorder{cluster: newCluster(), machines: map[string]*machine{}, servers: map[string]*modelServer{}, self: exporter, out: &recording{}}
	if r.adapter, err = newServer(&r.out.honored, podStore{r.cluster}); err != nil {
		return nil, err
	}
	defer r.adapter.stop()
	if err := r.cluster.happen(parsed.chapters[0]); err != nil {
		return nil, err
	}
	if err := r.cluster.start(); err != nil {
		return nil, err
	}
	defer r.cluster.stop()
	next := 1
	for after := time.Duration(0); after <= Length; after += stepEvery {
		for ; next < len(parsed.chapters) && parsed.chapters[next].at <= after; next++ {
			if err := r.cluster.happen(parsed.chapters[next]); err != nil {
				return nil, err
			}
		}
		if after > 0 { // the first reconcile has ended
			if err := r.cluster.step(stepEvery); err != nil {
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
	if at.Sub(begin)%adapterEvery == 0 {
		if err := r.adapter.step(at); err != nil {
			return err
		}
	}
	if err := r.scrapeRegistry(at, "adapter", r.adapter.registry); err != nil {
		return err
	}
	return r.scrapeRegistry(at, "autoscaler", r.cluster.registry)
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
	return append(page, r.self.expose(at, len(page))...), nil
}

func (r *recorder) scrapeRegistry(at time.Time, program string, registry prometheus.Gatherer) error {
	page, err := gather(registry)
	if err != nil {
		return fmt.Errorf("gathering the %s: %w", program, err)
	}
	r.out.scrape(at, targetLabels(program, ""), steadied(page))
	return nil
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
