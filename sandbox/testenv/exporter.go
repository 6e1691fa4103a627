package testenv

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

var firstName = regexp.MustCompile(`\w+`)

// Queried is the name of the first series in a query.
func Queried(query string) string { return firstName.FindString(query) }

// ExporterSeries returns Prometheus' answer to a query about a machine's exporter: the GPUs, which are all
// healthy, their instances, and what is allocated, with an age of zero. Other series do not exist. Names,
// values and labels were compared on 2026-11-27 with the pages in exporter/collect/testdata (mig.txtar,
// kubernetes.txtar). Those have more labels: gpu_info has pci_bus_id and driver_version, gpu_held has
// container and profile, gpu_healthy has reason.
func ExporterSeries(query string, m *node.Machine) (out []promtest.Series) {
	add := func(v float64, more ...string) {
		labels := map[string]string{metric.LabelNode: m.Name()}
		for i := 0; i+1 < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		out = append(out, promtest.Series{Labels: labels, Value: v})
	}
	gpus := m.GPUs()
	switch Queried(query) {
	case metric.GPUAttributionAgeSeconds.Name:
		add(0)
	case metric.GPUInfo.Name:
		for _, c := range gpus {
			add(1, metric.LabelGPU, strconv.Itoa(c.Index), metric.LabelGPUUUID, c.UUID, metric.LabelModel, strings.ReplaceAll(m.Product(), "-", " "), metric.LabelMIG, strconv.FormatBool(c.MIG))
		}
	case metric.GPUInstanceInfo.Name:
		for _, c := range gpus {
			for _, i := range c.Instances {
				add(1, metric.LabelGPU, strconv.Itoa(c.Index), metric.LabelGPUUUID, c.UUID, metric.LabelGPUInstanceID, strconv.Itoa(i.ID), metric.LabelProfile, i.Profile,
					metric.LabelStart, strconv.Itoa(i.Start), metric.LabelSize, strconv.Itoa(i.Placement.Profile.Memory), metric.LabelInstanceUUID, i.UUID)
			}
		}
	case metric.GPUHeld.Name:
		for _, h := range m.Holdings() {
			labels := []string{metric.LabelGPU, strconv.Itoa(h.GPU), metric.LabelGPUUUID, gpus[h.GPU].UUID, metric.LabelNamespace, h.Namespace, metric.LabelPod, h.Pod}
			if h.Instance >= 0 {
				labels = append(labels, metric.LabelGPUInstanceID, strconv.Itoa(h.Instance))
			}
			add(1, labels...)
		}
	case metric.GPUHealthy.Name:
		if strings.Contains(query, "== 0") {
			return nil
		}
		for _, c := range gpus {
			add(1, metric.LabelGPU, strconv.Itoa(c.Index), metric.LabelGPUUUID, c.UUID)
		}
	}
	return out
}
