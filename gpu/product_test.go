package gpu

import (
	"slices"
	"strings"
	"testing"
)

func TestParseProduct(t *testing.T) {
	for label, want := range map[string]string{
		// GFD labels.
		"NVIDIA-H100-80GB-HBM3":                       "H100-80GB",
		"NVIDIA-H100-80GB-HBM3-SHARED":                "H100-80GB",
		"NVIDIA-H100-80GB-HBM3-MIG-3g.40gb":           "H100-80GB",
		"NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me-SHARED": "H100-80GB",
		"NVIDIA-H100-80GB-HBM3-MIG-INVALID":           "H100-80GB",
		"NVIDIA-H100-PCIe":                            "H100-80GB",
		"NVIDIA-H100-NVL":                             "H100-NVL-94GB",
		"NVIDIA-H200":                                 "H200-141GB",
		"NVIDIA-H200-NVL":                             "H200-NVL",
		"NVIDIA-H20":                                  "H20",
		"NVIDIA-H20-3e":                               "H20-141GB",
		"NVIDIA-H800":                                 "H800-80GB",
		"NVIDIA-A100-SXM4-40GB":                       "A100-40GB",
		"NVIDIA-A100-SXM4-80GB":                       "A100-80GB",
		"NVIDIA-A100-80GB-PCIe":                       "A100-80GB",
		"NVIDIA-A100-PCIE-40GB":                       "A100-40GB",
		"A100-SXM4-40GB":                              "A100-40GB",
		"NVIDIA-A800-80GB-PCIe":                       "A800-80GB",
		"NVIDIA-A30":                                  "A30-24GB",
		"NVIDIA-A10":                                  "A10",
		"NVIDIA-A10G":                                 "A10G",
		"NVIDIA-GH200-480GB":                          "GH200-96GB",
		"NVIDIA-GH200-144G-HBM3e":                     "GH200-144GB",
		"NVIDIA-B200":                                 "B200-180GB",
		"NVIDIA-GB200":                                "GB200-186GB",
		"NVIDIA-B300-SXM6-AC":                         "B300",
		"NVIDIA-GB300":                                "GB300",
		"NVIDIA-L4":                                   "L4",
		"NVIDIA-L40":                                  "L40",
		"NVIDIA-L40S":                                 "L40S",
		"Tesla-T4":                                    "T4",
		"Tesla-T4-SHARED":                             "T4",
		"Tesla-V100-SXM2-16GB":                        "V100-16GB",
		"Tesla-V100S-PCIE-32GB":                       "V100-32GB",
		"NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition": "RTX-PRO-6000-Blackwell-96GB",
		"NVIDIA-RTX-6000-Ada-Generation":               "RTX-6000-ADA",
		"NVIDIA-GeForce-RTX-4090":                      "RTX-4090",
		"NVIDIA-GeForce-RTX-2080-Ti":                   "RTX-2080-TI",
		"NVIDIA-RTX-A4000":                             "RTX-A4000",
		"NVIDIA-RTX-5000-Ada-Generation":               "RTX-5000-ADA",
		"Quadro-RTX-5000":                              "RTX-5000",
		"NVIDIA-TITAN-RTX":                             "TITAN-RTX",
		// Driver names.
		"NVIDIA H100 80GB HBM3": "H100-80GB",
		"NVIDIA A100-SXM4-40GB": "A100-40GB",
		"Tesla T4":              "T4",
		"NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTX-PRO-6000-Blackwell-96GB",
		// Other vendors.
		"AMD_Instinct_MI300X_OAM":           "MI300X",
		"Intel(R) Data Center GPU Max 1550": "MAX-1550",
		"Ascend910B3":                       "ASCEND910B",
		"tpu-v5-lite-podslice":              "TPU-V5E",
		"tpu7x":                             "TPU7X",
		// vGPUs of a virtual machine.
		"GRID-T4-8Q":             "T4-8Q",
		"GRID T4-1B4":            "T4-1B4",
		"NVIDIA-A16-4Q":          "A16-4Q",
		"GRID-A100D-1-10C":       "A100D-1-10C",
		"NVIDIA-L40S-48Q-SHARED": "L40S-48Q",
		"GRID-A100-1-5CME":       "A100-1-5CME",
		"GRID-8Q":                "",
		// Names that do not determine the memory, and unknown ones.
		"NVIDIA-A100":          "",
		"NVIDIA-H100":          "",
		"Tesla-V100":           "",
		"NVIDIA-A100-SXM-64GB": "",
		"NVIDIA-H1000":         "",
		"NVIDIA":               "",
		"MIG-3g.40gb":          "",
		"":                     "",
	} {
		m, ok := ParseProduct(label)
		if m.Name != want || ok != (want != "") || ok != m.Known() {
			t.Errorf("%q: got %q, %v, want %q", label, m.Name, ok, want)
		}
	}
}

func TestParseProductMemory(t *testing.T) {
	for _, c := range []struct {
		label  string
		memory int
		want   string
	}{
		{"NVIDIA-A100", 40536, "A100-40GB"},
		{"NVIDIA-A100", 81251, "A100-80GB"},
		{"NVIDIA-A100", 65536, ""},
		{"NVIDIA-H100", 95830, "H100-NVL-94GB"},
		{"NVIDIA-H100", 81559, "H100-80GB"},
		{"Tesla-V100", 32768, "V100-32GB"},
		{"NVIDIA-H20", 97871, "H20"},
		{"NVIDIA-H20", 143771, "H20-141GB"},
		{"NVIDIA-RTX-PRO-5000-Blackwell", 73415, "RTX-PRO-5000-72GB"},
		{"NVIDIA-H100-80GB-HBM3", 0, "H100-80GB"},
		{"NVIDIA-H100-80GB-HBM3", 81559, "H100-80GB"},
		{"NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", 40448, "H100-80GB"}, // the instance's memory
		{"NVIDIA-A100-MIG-3g.40gb", 40448, ""},
	} {
		if m, _ := ParseProductMemory(c.label, c.memory); m.Name != c.want {
			t.Errorf("%q, %d MiB: got %q, want %q", c.label, c.memory, m.Name, c.want)
		}
	}
}

// TestVGPUMemory: the profile of a vGPU states its memory, whatever the memory of the GPU.
func TestVGPUMemory(t *testing.T) {
	if m, ok := ParseProductMemory("GRID-A100-40C", 81920); !ok || m != (Model{Name: "A100-40C", Vendor: "nvidia", MemoryMiB: 40960}) {
		t.Errorf("%+v", m)
	}
}

func TestOurNamesMeanThemselves(t *testing.T) {
	var names []string
	for _, p := range products {
		m, ok := ParseProduct(p.Name)
		if searched, _ := ParseProductMemory(p.Name, 0); !ok || m != p.Model || searched != m {
			t.Errorf("%s: got %+v, and %+v by its spelling", p.Name, m, searched)
		}
		if p.MemoryMiB <= 0 || p.Vendor == "" || slices.Contains(names, p.Name) {
			t.Errorf("%+v: no memory, no vendor, or twice", p.Model)
		}
		names = append(names, p.Name)
		for _, s := range slices.Concat(p.spellings, p.open) {
			if got, _ := normal(s); got != s {
				t.Errorf("%s: spelling %q never matches, want %q", p.Name, s, got)
			}
		}
	}
}

func FuzzParseProduct(f *testing.F) {
	for _, s := range []string{"NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me-SHARED", "Tesla T4", "AMD_Instinct_MI300X_OAM", "-SHARED", "MIG", "\xff-A100"} {
		f.Add(s, 40960)
	}
	f.Fuzz(func(t *testing.T, label string, memory int) {
		m, ok := ParseProductMemory(label, memory)
		if ok != m.Known() {
			t.Fatalf("%q: %+v, %v", label, m, ok)
		}
		if again, _ := ParseProduct(m.Name); ok && again != m {
			t.Fatalf("%q is %s, which is %s", label, m.Name, again.Name)
		}
		if shared, _ := ParseProductMemory(label+"-SHARED", memory); ok && !strings.Contains(strings.ToUpper(label), "SHARED") && shared != m {
			t.Fatalf("%q is %s, shared it is %s", label, m.Name, shared.Name)
		}
	})
}

func TestProductName(t *testing.T) {
	for label, want := range map[string]string{
		"NVIDIA-H100-80GB-HBM3-MIG-3g.40gb": "H100-80GB",
		"H100-80GB":                         "H100-80GB",
		"NVIDIA-Z900-128GB":                 "Z900-128GB", // unknown
		"NVIDIA Z900 128GB":                 "Z900-128GB",
		"NVIDIA-Z900-128GB-MIG-1g.16gb":     "Z900-128GB",
		"NVIDIA-Z900-128GB-SHARED":          "Z900-128GB",
		"NVIDIA":                            "",
		"":                                  "",
	} {
		if got := ProductName(label); got != want {
			t.Errorf("%q: got %q, want %q", label, got, want)
		}
		if again := ProductName(want); again != want {
			t.Errorf("%q is not its own name: %q", want, again)
		}
	}
}

func TestHealthWords(t *testing.T) {
	for h, want := range map[Health]string{HealthUnknown: "unknown", Healthy: "healthy", Sick: "sick", Health(9): "unknown"} {
		if h.String() != want {
			t.Errorf("%d: %s", h, h)
		}
	}
}
