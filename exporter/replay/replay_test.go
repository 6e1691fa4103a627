package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/internal/require"
)

const small = `
- seconds: 10
  gpus:
  - gpu: 0
    uuid: GPU-a
    model: A B
    mig: true
    gpuMaxCompute: 7
    minor: 3
    values: {DCGM_FI_DEV_POWER_USAGE: 100, "54": "GPU-a"} # a comment
    instances:
    - {instanceID: 1, profile: 3g.40gb, start: 0, size: 4, computeSlices: 3, instanceUUID: MIG-1, values: {"1001": 0.5, "252": 10}}
- seconds: 20
  gpus:
  - {gpu: 0, mig: true, instances: [{instanceID: 2, profile: 1g.10gb}]}
`

// playing returns a source, and its clock to set.
func playing(t *testing.T, text string) (*Source, *time.Time) {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	frames, err := Parse([]byte(text))
	require.NoError(t, err)
	s, err := NewSource(frames, func() time.Time { return now })
	require.NoError(t, err)
	return s, &now
}

func read(t *testing.T, s *Source) *collect.Reading {
	t.Helper()
	r, err := s.Read()
	require.NoError(t, err)
	return r
}

func TestPlay(t *testing.T) {
	s, now := playing(t, small)
	first := read(t, s)
	if len(first.Entities) != 2 {
		t.Fatalf("%d entities", len(first.Entities))
	}
	i := first.Entities[1]
	if i.Kind != collect.Instance || i.UUID != "GPU-a" || i.Model != "A B" || i.Minor != 3 || !i.MIG || i.GPUMaxCompute != 7 ||
		i.InstanceID != 1 || i.Start != 0 || i.Size != 4 || i.ComputeSlices != 3 || i.InstanceUUID != "MIG-1" {
		t.Errorf("instance %+v", i)
	}
	if v, ok := first.Entities[0].Value(54); !ok || !v.IsText || v.Text != "GPU-a" {
		t.Errorf("text value %+v", v)
	}
	*now = now.Add(10 * time.Second)
	if second := read(t, s); second.Entities[1].InstanceID != 2 || second.Entities[1].Start != -1 || len(second.Entities[1].Values) != 0 {
		t.Errorf("after the repartition: %+v", second.Entities[1])
	}
	if v, _ := first.Entities[1].Value(1001); v.Number != 0.5 {
		t.Error("an earlier Reading changed")
	}
	*now = now.Add(20 * time.Second) // the second pass
	if v, ok := read(t, s).Entities[1].Value(1001); !ok || v.Number != 0.5 || !v.Time.Equal(*now) {
		t.Errorf("second pass begins with %+v", v)
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "recording: want at least one GPU",
		"GPU 0":                               "recording: error unmarshaling JSON",
		"- gpu: 0":                            `unknown field "gpu"`,
		"- gpus: [{gpu: x}]":                  "cannot unmarshal string",
		"- gpus: [{values: {DCGM_FI_NO: 1}}]": "recording: frame 0: GPU 0: DCGM_FI_NO: no DCGM field has this name or number",
		"- gpus: [{instances: [{instanceID: 3, values: {DCGM_FI_DEV_GPU_UTIL: [1]}}]}]": "frame 0: instance 3 of GPU 0: DCGM_FI_DEV_GPU_UTIL: [1] is neither",
		"- gpus: [{values: {DCGM_FI_DEV_GPU_UTIL: 808334905}}]":                         "frame 0: GPU 0: DCGM_FI_DEV_GPU_UTIL: 8.08334905e+08 is impossible",
		"- gpus: [{gpu: 0}]\n- gpus: []":                                                "recording: frame 0: seconds: 0, want more than 0",
	} {
		frames, err := Parse([]byte(text))
		if err == nil {
			_, err = NewSource(frames, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
