package story

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Story is everything that a sandbox plays.
type Story struct {
	Title     string        `yaml:"title"`
	Pools     []Pool        `yaml:"pools"`
	Nodes     []Node        `yaml:"nodes"`
	Workloads []Workload    `yaml:"workloads"`
	Objects   []Object      `yaml:"objects"` // created when the adapter answers, for example HPAs
	Traffic   *Traffic      `yaml:"traffic"` // nil: none
	Expect    []Expectation `yaml:"expect"`
	Always    []Condition   `yaml:"always"`
}

// Layout has the MIG devices of each GPU of a node, as profile name and count. It is empty for GPUs without
// MIG. A single entry is for all GPUs.
type Layout []map[string]int

// Pool of equal nodes.
type Pool struct {
	Name           string        `yaml:"name"`
	Product        string        `yaml:"product"`
	GPUs           int           `yaml:"gpus"` // of a node
	Min            int           `yaml:"min"`
	Max            int           `yaml:"max"`
	Price          float64       `yaml:"pricePerHour"` // of a node
	Boot           time.Duration `yaml:"boot"`
	Layout         Layout        `yaml:"layout"`
	IdleAfter      time.Duration `yaml:"idleAfter"`      // how long a MIG device must be idle before it may be destroyed
	ScaleDownAfter time.Duration `yaml:"scaleDownAfter"` // how long a node must be empty
	CPU            int           `yaml:"cpu"`
	MemoryGiB      int           `yaml:"memoryGiB"`
}

// Node that exists at the start.
type Node struct {
	Name   string `yaml:"name"`
	Pool   string `yaml:"pool"`
	Layout Layout `yaml:"layout"` // empty: the pool's
}

// Workload is a Deployment. With a model it is a simulated inference server. Without a model it keeps its
// GPUs busy at a constant level.
type Workload struct {
	Namespace string        `yaml:"namespace"`
	Name      string        `yaml:"name"`
	Replicas  int           `yaml:"replicas"`
	Resource  string        `yaml:"resource"` // extended resource that each pod requests
	Count     int           `yaml:"count"`    // amount of it
	Node      string        `yaml:"node"`     // where it must run; empty: anywhere
	Pool      string        `yaml:"pool"`     // the same
	Busy      float64       `yaml:"busy"`     // 0 … 1, without a model
	MemoryGiB float64       `yaml:"memoryGiB"`
	Model     string        `yaml:"model"`
	Load      time.Duration `yaml:"load"` // until the model is loaded
}

// Object is any Kubernetes object, as in a manifest.
type Object map[string]any

// Traffic is the load on a simulated inference server: the synthetic trace, unless the sandbox is given
// another trace.
type Traffic struct {
	Namespace string        `yaml:"namespace"`
	Name      string        `yaml:"name"`
	Speed     float64       `yaml:"speed"` // seconds of traffic time a second
	Seed      uint64        `yaml:"seed"`
	Base      float64       `yaml:"base"` // requests a second
	Peak      float64       `yaml:"peak"`
	Length    time.Duration `yaml:"length"` // in traffic time
}

// The decoders below set defaults. They use this form of UnmarshalYAML because it keeps the outer decoder's
// strictness; yaml.Node.Decode does not.

// UnmarshalYAML sets the defaults of a pool.
func (p *Pool) UnmarshalYAML(decode func(any) error) error {
	type pool Pool
	*p = Pool{Boot: 15 * time.Second, IdleAfter: 5 * time.Second, ScaleDownAfter: 20 * time.Second, CPU: 64, MemoryGiB: 512}
	return decode((*pool)(p))
}

// UnmarshalYAML sets the defaults of a workload.
func (w *Workload) UnmarshalYAML(decode func(any) error) error {
	type workload Workload
	*w = Workload{Replicas: 1, Count: 1, Busy: 0.5, MemoryGiB: 1, Load: 3 * time.Second}
	return decode((*workload)(w))
}

// UnmarshalYAML sets the defaults of the traffic.
func (t *Traffic) UnmarshalYAML(decode func(any) error) error {
	type traffic Traffic
	*t = Traffic{Speed: 1, Seed: 1, Base: 1.6, Peak: 8.5, Length: time.Hour}
	return decode((*traffic)(t))
}

// Load reads a story from a file.
func Load(path string) (Story, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Story{}, fmt.Errorf("opening the story: %w", err)
	}
	return Parse(path, string(text))
}

// Parse reads a story. Each line of the error names the file, and the line or the path of the wrong field.
func Parse(file, text string) (Story, error) {
	var s Story
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	err := d.Decode(&s)
	if errors.Is(err, io.EOF) {
		return s, fmt.Errorf("story %s: empty", file)
	}
	var shape *yaml.TypeError
	var problems []error
	switch {
	case errors.As(err, &shape):
		for _, p := range shape.Errors {
			problems = append(problems, fmt.Errorf("story %s:%s", file, strings.TrimPrefix(p, "line ")))
		}
	case err != nil:
		problems = append(problems, fmt.Errorf("story %s: %w", file, err))
	case !errors.Is(d.Decode(new(yaml.Node)), io.EOF):
		problems = append(problems, fmt.Errorf("story %s: one file holds one story", file))
	default:
		for _, p := range s.Validate() {
			problems = append(problems, fmt.Errorf("story %s: %w", file, p))
		}
	}
	return s, errors.Join(problems...)
}
