package replay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

// Frame is a machine for some seconds. Frames are played in a circle; a single
// one stays.
type Frame struct {
	Seconds float64  `json:"seconds"`
	GPUs    []Entity `json:"gpus"`
}

// Entity is a GPU or, among a GPU's Instances, a MIG instance, with its GPU's
// identity. Keys of the YAML are collect.Entity's own; a GPU's index, and its minor
// unless given, are its number. An instance of size 0 has an unknown placement.
type Entity struct {
	collect.Entity
	// Values by the name or number of their DCGM field: float64 or string.
	Values    map[string]any `json:"values"`
	Instances []Entity       `json:"instances"`
}

// Parse reads a recording: a YAML list of frames.
//
//	# one H100 with an instance, and none of it for the second ten seconds
//	- seconds: 10
//	  gpus:
//	  - gpu: 0
//	    uuid: GPU-5a1…
//	    model: NVIDIA H100 80GB HBM3
//	    mig: true
//	    gpuMaxCompute: 7
//	    values: {DCGM_FI_DEV_POWER_USAGE: 310.5}
//	    instances:
//	    - {instanceID: 1, profile: 3g.40gb, start: 0, size: 4, computeSlices: 3, instanceUUID: MIG-77c…, values: {1001: 0.42}}
//	- seconds: 10
func Parse(text []byte) (frames []Frame, err error) {
	if err := yaml.UnmarshalStrict(text, &frames); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	return frames, nil
}

// Source plays frames. A value is as fresh as the Read that returns it.
type Source struct {
	frames []*collect.Reading
	ends   []time.Duration // of each frame, from the start of a pass
	now    func() time.Time
	start  time.Time
}

// NewSource starts playing by a clock; nil is time.Now.
func NewSource(frames []Frame, now func() time.Time) (*Source, error) {
	if now == nil {
		now = time.Now
	}
	s := &Source{now: now, start: now()}
	var end time.Duration
	any := false
	for i, f := range frames {
		if f.Seconds <= 0 && len(frames) > 1 {
			return nil, fmt.Errorf("recording: frame %d: seconds: %v, want more than 0", i, f.Seconds)
		}
		entities, err := f.entities()
		if err != nil {
			return nil, fmt.Errorf("recording: frame %d: %w", i, err)
		}
		any = any || len(entities) > 0
		end += time.Duration(f.Seconds * float64(time.Second))
		s.frames, s.ends = append(s.frames, &collect.Reading{Entities: entities}), append(s.ends, end)
	}
	if !any {
		return nil, errors.New("recording: want at least one GPU")
	}
	return s, nil
}

func (f *Frame) entities() (out []collect.Entity, err error) {
	for _, g := range f.GPUs {
		device := g.Entity
		device.Kind, device.Index = collect.GPU, g.GPU
		if device.Minor == 0 {
			device.Minor = g.GPU
		}
		if device.Values, err = values(g.Values); err != nil {
			return nil, fmt.Errorf("GPU %d: %w", g.GPU, err)
		}
		out = append(out, device)
		for _, i := range g.Instances {
			e := device // its identity
			e.Kind, e.InstanceID, e.InstanceUUID, e.Profile = collect.Instance, i.InstanceID, i.InstanceUUID, i.Profile
			if e.Start, e.Size, e.ComputeSlices = i.Start, i.Size, i.ComputeSlices; e.Size == 0 {
				e.Start = -1
			}
			if e.Values, err = values(i.Values); err != nil {
				return nil, fmt.Errorf("instance %d of GPU %d: %w", i.InstanceID, g.GPU, err)
			}
			out = append(out, e)
		}
	}
	collect.NumberInstances(out)
	return out, nil
}

func values(named map[string]any) ([]collect.Value, error) {
	out := make([]collect.Value, 0, len(named))
	for name, value := range named {
		id, ok := counters.FieldID(name)
		if !ok {
			return nil, fmt.Errorf("%s: no DCGM field has this name or number", name)
		}
		v := collect.Value{Field: id}
		switch value := value.(type) {
		case float64:
			if v.Number = value; !collect.Plausible(id, &v.Number) {
				return nil, fmt.Errorf("%s: %v is impossible", name, value)
			}
		case string:
			v.Text, v.IsText = value, true
		default:
			return nil, fmt.Errorf("%s: %v is neither a number nor text", name, value)
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b collect.Value) int { return cmp.Compare(a.Field, b.Field) })
	return out, nil
}

// Watch does nothing: the recording determines what there is, and how often it changes.
func (s *Source) Watch([]uint16, time.Duration, map[uint16]time.Duration) {}

// Read returns the recording's state at this moment. It never fails.
func (s *Source) Read() (*collect.Reading, error) {
	now, i := s.now(), 0
	if length := s.ends[len(s.ends)-1]; length > 0 {
		at := now.Sub(s.start) % length
		i = slices.IndexFunc(s.ends, func(end time.Duration) bool { return at < end })
	}
	r := &collect.Reading{Taken: now, Dropped: map[string]int{}, Entities: slices.Clone(s.frames[i].Entities)}
	for k := range r.Entities {
		values := slices.Clone(r.Entities[k].Values)
		for v := range values {
			values[v].Time = now
		}
		r.Entities[k].Values = values
	}
	return r, nil
}

// Close does nothing: nothing is open.
func (s *Source) Close() error { return nil }
