package demand

import (
	"reflect"
	"testing"
)

func TestFromKAI(t *testing.T) {
	for _, c := range []struct {
		document    string
		annotations map[string]string
		want        string
	}{
		{"KAI docs/gpu-sharing/gpu-sharing.yaml", map[string]string{"gpu-fraction": "0.5"}, "50 % memory of a GPU"},
		{"KAI docs/gpu-sharing/gpu-memory.yaml", map[string]string{"gpu-memory": "2000"}, "2000 MiB of a GPU"},
		{
			"KAI docs/gpu-sharing/gpu-sharing-non-default-container.yaml",
			map[string]string{"gpu-fraction": "0.5", "gpu-fraction-container-name": "gpu-workload"}, "50 % memory of a GPU",
		},
		{
			"Run:ai documentation, several devices",
			map[string]string{"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, "25 % memory of each of 2 GPUs",
		},
		{
			"Run:ai documentation, memory of several devices",
			map[string]string{"gpu-memory": "4096", "gpu-fraction-num-devices": "2"}, "4100 MiB of each of 2 GPUs",
		},
		{"a whole one", map[string]string{"gpu-fraction": "1", "gpu-fraction-num-devices": "2"}, "2 GPUs"},
		{"a third, never less", map[string]string{"gpu-fraction": "0.3333333"}, "33.4 % memory of a GPU"},
		{"none", map[string]string{"runai/queue": "test"}, "nothing"},
	} {
		if got, err := FromKAI(c.annotations); err != nil || got.String() != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.document, got, err, c.want)
		}
	}
}

func TestFromKAIRefuses(t *testing.T) {
	for want, annotations := range map[string]map[string]string{
		`annotation gpu-memory: contradicts gpu-fraction`:                                                          {"gpu-fraction": "0.5", "gpu-memory": "1"},
		`annotation gpu-fraction: "0": want more than 0, at most 1`:                                                {"gpu-fraction": "0"},
		`annotation gpu-fraction: "1.5": want more than 0, at most 1`:                                              {"gpu-fraction": "1.5"},
		`annotation gpu-fraction: "NaN": want more than 0, at most 1`:                                              {"gpu-fraction": "NaN"},
		`annotation gpu-fraction: "half": want more than 0, at most 1`:                                             {"gpu-fraction": "half"},
		`annotation gpu-memory: "2Gi": want a whole number above 0`:                                                {"gpu-memory": "2Gi"},
		`annotation gpu-fraction-num-devices: "0": want a whole number above 0`:                                    {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"},
		`annotation gpu-fraction-num-devices: the size of the part is not stated, want gpu-fraction or gpu-memory`: {"gpu-fraction-num-devices": "2"},
	} {
		if d, err := FromKAI(annotations); err == nil || err.Error() != want || !d.Zero() {
			t.Errorf("got %s, %v\nwant %s", d, err, want)
		}
	}
}

func FuzzFromKAI(f *testing.F) {
	f.Add("0.5", "", "2")
	f.Add("", "2000", "")
	f.Add("1e-19", "", "")
	f.Add("0x1p-2", "", "+3")
	f.Fuzz(func(t *testing.T, fraction, memory, devices string) {
		annotations := map[string]string{}
		for key, value := range map[string]string{"gpu-fraction": fraction, "gpu-memory": memory, "gpu-fraction-num-devices": devices} {
			if value != "" {
				annotations[key] = value
			}
		}
		d, err := FromKAI(annotations)
		switch {
		case err != nil && !d.Zero():
			t.Fatalf("%v: %v and %v", annotations, d, err)
		case err == nil && d.Zero() != (len(annotations) == 0):
			t.Fatalf("%v is %v", annotations, d)
		case d.Fraction != nil && (d.Fraction.GPUs < 1 || d.Fraction.MemoryMilli < 0 || d.Fraction.MemoryMilli > 999 ||
			d.Fraction.MemoryMiB < 0 || (d.Fraction.MemoryMiB == 0) == (d.Fraction.MemoryMilli == 0)):
			t.Fatalf("%v is %+v", annotations, *d.Fraction)
		}
		if again, _ := FromKAI(annotations); !reflect.DeepEqual(again, d) {
			t.Fatal("not the same twice")
		}
	})
}
