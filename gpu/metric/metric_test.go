package metric

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ours are the names of our series and labels.
var ours = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range All() {
		if !ours.MatchString(d.Name) || seen[d.Name] {
			t.Errorf("%s: not a name, or twice", d.Name)
		}
		seen[d.Name] = true
		base := strings.TrimSuffix(d.Name, "_total")
		if counts := base != d.Name; counts != (d.Type == Counter) {
			t.Errorf("%s: counters end in _total, and nothing else does", d.Name)
		}
		switch d.Unit {
		case None, Bool:
			for _, u := range []Unit{Seconds, Bytes, Ratio, Watts, Joules, Info} {
				if strings.HasSuffix(base, "_"+string(u)) {
					t.Errorf("%s: ends in %s and has unit %q", d.Name, u, d.Unit)
				}
			}
		default:
			if !strings.HasSuffix(base, "_"+string(d.Unit)) {
				t.Errorf("%s: does not end in its unit %s", d.Name, d.Unit)
			}
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count", "_created"} {
			if strings.HasSuffix(d.Name, suffix) {
				t.Errorf("%s: %s belongs to histograms", d.Name, suffix)
			}
		}
	}
}

func TestDescriptions(t *testing.T) {
	for _, d := range All() {
		if !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s: help %q is no sentence", d.Name, d.Help)
		}
		if !slices.Contains([]Type{Gauge, Counter, Histogram}, d.Type) || d.Stability == "" {
			t.Errorf("%s: type %q, stability %q", d.Name, d.Type, d.Stability)
		}
		labels := d.AllLabels()
		for i, l := range labels {
			if !ours.MatchString(l) || slices.Contains(labels[:i], l) {
				t.Errorf("%s: label %q is no label, or there twice", d.Name, l)
			}
		}
		prefix := "gpuscale_" + string(d.Owner) + "_"
		if own := strings.HasPrefix(d.Name, "gpuscale_"); own && !strings.HasPrefix(d.Name, prefix) {
			t.Errorf("%s: %s does not own it", d.Name, d.Owner)
		} else if !own && (d.Owner != Exporter || !strings.HasPrefix(d.Name, "gpu_")) {
			t.Errorf("%s: a program's series about itself begin with %s", d.Name, prefix)
		}
	}
}

// TestTheLoopsSeries: the series by which the programs communicate keep their labels.
func TestTheLoopsSeries(t *testing.T) {
	for name, labels := range map[string]string{
		"gpu_info":                    "node gpu gpu_uuid model pci_bus_id mig driver_version",
		"gpu_instance_info":           "node gpu gpu_uuid gpu_instance_id profile start size instance_uuid",
		"gpu_held":                    "node gpu gpu_uuid namespace pod container gpu_instance_id profile",
		"gpu_busy_ratio":              "node gpu gpu_uuid model namespace pod container",
		"gpu_instance_busy_ratio":     "node gpu gpu_uuid gpu_instance_id profile namespace pod container",
		"gpu_share_ratio":             "node gpu gpu_uuid model gpu_instance_id profile namespace pod container",
		"gpu_memory_used_bytes":       "node gpu gpu_uuid model gpu_instance_id profile namespace pod container",
		"gpu_memory_total_bytes":      "node gpu gpu_uuid model gpu_instance_id profile namespace pod container",
		"gpu_power_watts":             "node gpu gpu_uuid model",
		"gpu_energy_joules_total":     "node gpu gpu_uuid model",
		"gpu_idle_seconds":            "node gpu gpu_uuid namespace pod container gpu_instance_id profile",
		"gpu_sample_age_seconds":      "node gpu gpu_uuid gpu_instance_id",
		"gpu_attribution_age_seconds": "node",
		"gpu_healthy":                 "node gpu gpu_uuid reason",
	} {
		d, ok := Find(name)
		if got := strings.Join(d.AllLabels(), " "); !ok || got != labels {
			t.Errorf("%s: %v, labels\n got %s\nwant %s", name, ok, got, labels)
		}
	}
	if _, ok := Find("gpu_"); ok {
		t.Error("found a series that is not there")
	}
}

func TestReads(t *testing.T) {
	name := regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	reads := Reads()
	for i, r := range reads {
		if !name.MatchString(r.Name) || i > 0 && reads[i-1].Name >= r.Name {
			t.Errorf("%s: not a name, or out of order", r.Name)
		}
		// Triton's counters have another unit or no suffix, DCGM's are arbitrary.
		counts := strings.HasSuffix(r.Name, "_total") || (r.Server == ServerTriton || r.Server == ServerDCGM) && r.Type == Counter
		if r.Help == "" || r.Server == "" || (r.Type == Counter) != counts {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}
