package main

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// exporters is a double of Prometheus that has scraped an exporter on every node: it
// answers the autoscaler's own queries with series whose labels are the exporter's,
// all a second old, and no others. Pods get the first devices that are free, as from
// the device plugin. A node it has been told of answers at once.
type exporters struct {
	URL    string
	server *http.Server

	mu      sync.Mutex
	nodes   map[string]*devices
	bodies  map[string][]byte // answers, until something changes
	Queries int
	Bytes   int64
}

// devices of a node: cards, or instances by card.
type devices struct {
	all []device
}

type device struct {
	card     int
	instance int // -1 for a whole card
	resource string
	holder   string // "namespace/name"
}

func startExporters() (*exporters, error) {
	e := &exporters{nodes: map[string]*devices{}, bodies: map[string][]byte{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the double of Prometheus: %w", err)
	}
	e.URL = "http://" + listener.Addr().String()
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	go func() { _ = e.server.Serve(listener) }()
	return e, nil
}

func (e *exporters) stop() { _ = e.server.Close() }

func (e *exporters) add(n *corev1.Node) {
	d := &devices{}
	instances := n.Status.Allocatable[one]
	for card := range cardsOfNode {
		if instances.Value() == 0 {
			d.all = append(d.all, device{card, -1, whole, ""})
			continue
		}
		for i := range onesOfCard {
			d.all = append(d.all, device{card, i, one, ""})
		}
	}
	e.change(func() { e.nodes[n.Name] = d })
}

func (e *exporters) remove(node string) { e.change(func() { delete(e.nodes, node) }) }

func (e *exporters) change(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
	clear(e.bodies)
}

func (e *exporters) hold(p *corev1.Pod) {
	e.change(func() {
		d := e.nodes[p.Spec.NodeName]
		if d == nil {
			return
		}
		for name, q := range p.Spec.Containers[0].Resources.Requests {
			left := int(q.Value())
			for i := range d.all {
				if left > 0 && d.all[i].resource == string(name) && d.all[i].holder == "" {
					d.all[i].holder = p.Namespace + "/" + p.Name
					left--
				}
			}
		}
	})
}

func (e *exporters) release(p *corev1.Pod) {
	e.change(func() {
		if d := e.nodes[p.Spec.NodeName]; d != nil {
			for i := range d.all {
				if d.all[i].holder == p.Namespace+"/"+p.Name {
					d.all[i].holder = ""
				}
			}
		}
	})
}

// ServeHTTP answers /api/v1/query.
func (e *exporters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	e.mu.Lock()
	body, ok := e.bodies[query]
	if !ok {
		body = e.answer(query)
		e.bodies[query] = body
	}
	e.Queries++
	e.Bytes += int64(len(body))
	e.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// answer writes a vector. Which one is told by the metric's name, which stands first.
func (e *exporters) answer(query string) []byte {
	name := query
	if end := strings.IndexAny(query, " (+"); end > 0 {
		name = query[:end]
	}
	if strings.HasPrefix(query, "(") {
		name, _, _ = strings.Cut(query[1:], " ")
	}
	v := vector{name: name, now: time.Now().Unix()}
	v.text = append(v.text, `{"status":"success","data":{"resultType":"vector","result":[`...)
	for node, d := range e.nodes {
		v.node(node, d)
	}
	v.text = append(v.text, `]}}`...)
	return v.text
}

// vector is an answer being written.
type vector struct {
	name  string
	now   int64
	text  []byte
	many  bool
	pairs [][2]string // of the series being written
}

func (v *vector) node(node string, d *devices) {
	at := []string{metric.LabelNode, node}
	if v.name == metric.GPUAttributionAgeSeconds.Name {
		v.add("1", at...)
		return
	}
	last := -1
	for i := range d.all {
		c := &d.all[i]
		card := append(slices.Clip(at), metric.LabelGPU, strconv.Itoa(c.card), metric.LabelGPUUUID, fmt.Sprintf("GPU-%s-%d", node, c.card))
		if c.card != last {
			last = c.card
			v.card(card, c)
		}
		v.device(card, c)
	}
}

// card writes what there is once for each card.
func (v *vector) card(card []string, c *device) {
	model := []string{metric.LabelModel, "NVIDIA H100 80GB HBM3"}
	switch v.name {
	case metric.GPUInfo.Name:
		v.add("1", append(append(slices.Clip(card), model...), metric.LabelMIG, strconv.FormatBool(c.instance >= 0),
			metric.LabelPCIBusID, "00000000:0F:00.0", metric.LabelDriverVersion, "570.86.15")...)
	case metric.GPUHealthy.Name, metric.GPUSampleAgeSeconds.Name:
		v.add("1", card...)
	case metric.GPUBusyRatio.Name:
		v.add("0.9", append(slices.Clip(card), model...)...)
	}
}

// device writes what there is for each card or instance that can be held.
func (v *vector) device(card []string, c *device) {
	if c.instance >= 0 {
		card = append(slices.Clip(card), metric.LabelGPUInstanceID, strconv.Itoa(c.instance+7), metric.LabelProfile, "1g.10gb")
	}
	switch v.name {
	case metric.GPUInstanceInfo.Name:
		if c.instance >= 0 {
			v.add("1", append(card, metric.LabelStart, strconv.Itoa(c.instance), metric.LabelSize, "1", metric.LabelInstanceUUID, fmt.Sprintf("MIG-%s-%d", card[1], c.instance))...)
		}
	case metric.GPUInstanceBusyRatio.Name:
		if c.instance >= 0 {
			v.add("0.9", card...)
		}
	case metric.GPUHeld.Name:
		if c.holder != "" {
			namespace, pod, _ := strings.Cut(c.holder, "/")
			v.add("1", append(card, metric.LabelNamespace, namespace, metric.LabelPod, pod, metric.LabelContainer, "main")...)
		}
	}
}

// add writes a series with Prometheus's own labels besides, in order of name as
// Prometheus has them.
func (v *vector) add(value string, labels ...string) {
	if v.many {
		v.text = append(v.text, ',')
	}
	v.many = true
	v.pairs = append(v.pairs[:0], [2]string{"__name__", v.name}, [2]string{"instance", "10.0.0.1:9400"}, [2]string{"job", "gpuscale-exporter"})
	for i := 0; i < len(labels); i += 2 {
		v.pairs = append(v.pairs, [2]string{labels[i], labels[i+1]})
	}
	slices.SortFunc(v.pairs, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	v.text = append(v.text, `{"metric":{`...)
	for i, pair := range v.pairs {
		if i > 0 {
			v.text = append(v.text, ',')
		}
		v.text = strconv.AppendQuote(v.text, pair[0])
		v.text = append(v.text, ':')
		v.text = strconv.AppendQuote(v.text, pair[1])
	}
	v.text = append(v.text, `},"value":[`...)
	v.text = strconv.AppendInt(v.text, v.now, 10)
	v.text = append(v.text, `,"`...)
	v.text = append(v.text, value...)
	v.text = append(v.text, `"]}`...)
}
