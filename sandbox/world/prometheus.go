package world

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
)

// Scrape jobs.
const (
	jobExporter   = "gpuscale-exporter"
	jobReplay     = "gpuscale-exporter-replay"
	jobServers    = "vllm"
	jobAdapter    = "gpuscale-adapter"
	jobAutoscaler = "gpuscale-autoscaler"
)

// targetsFile lists what Prometheus scrapes, beside its configuration.
const targetsFile = "targets.json"

// prometheusConfig scrapes every second, so that a story need not wait.
// Targets come from a file; each says its job itself. The adapter serves TLS
// and asks who is there, so the API server's readiness stands for it.
func prometheusConfig() []byte {
	return []byte(`global:
  scrape_interval: 1s
  scrape_timeout: 1s
  evaluation_interval: 5s
scrape_configs:
- job_name: sandbox
  honor_labels: true
  file_sd_configs:
  - files: [` + targetsFile + `]
    refresh_interval: 5s
`)
}

// target group of Prometheus' file format.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// targets writes the list of targets when it has changed.
type targets struct {
	dir  string
	last []target
}

func (t *targets) write(list []target) error {
	if t.last != nil && reflect.DeepEqual(t.last, list) {
		return nil
	}
	if list == nil {
		list = []target{}
	}
	body, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		return fmt.Errorf("writing Prometheus' targets: %w", err)
	}
	// Replaced at once: Prometheus may read at any moment.
	path := filepath.Join(t.dir, targetsFile)
	if err := os.WriteFile(path+".new", body, 0o600); err != nil {
		return fmt.Errorf("writing Prometheus' targets: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing Prometheus' targets: %w", err)
	}
	t.last = list
	return nil
}
