package doctor

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Names of other programs are repeated here, since programs do not import each other;
// these tests compare them with their owners.

func TestSignals(t *testing.T) {
	var theirs []string
	for _, r := range signal.Builtin(time.Minute) {
		theirs = append(theirs, r.Name)
	}
	if ours := slices.Sorted(slices.Values(signals)); !slices.Equal(ours, slices.Sorted(slices.Values(theirs))) {
		t.Errorf("the adapter has %q, this list %q", theirs, ours)
	}
}

func TestNames(t *testing.T) {
	if reasonForeign != pools.ReasonForeign {
		t.Errorf("%q here, %q there", reasonForeign, pools.ReasonForeign)
	}
	if maxUndo != partition.MaxUndoAttempts {
		t.Errorf("%d attempts here, %d there", maxUndo, partition.MaxUndoAttempts)
	}
}

// Every series of a query is emitted.
func TestSeries(t *testing.T) {
	known := map[string]bool{"up": true}
	for _, d := range metric.All() {
		known[d.Name] = true
	}
	for _, r := range rules.All() {
		known[r.Record] = true
	}
	name := regexp.MustCompile(`\$([a-zA-Z_][a-zA-Z0-9_:]*)`)
	for _, d := range Table {
		for _, m := range name.FindAllStringSubmatch(d.Query, -1) {
			if !known[m[1]] {
				t.Errorf("%s: no program emits %s", d.Name, m[1])
			}
		}
	}
	for _, rule := range []string{gpuRule, poolRule} {
		if !known[rule] {
			t.Errorf("there is no rule %s", rule)
		}
	}
}

// Every check has texts, a unique id, and existing sources.
func TestAll(t *testing.T) {
	sources := map[*Source]bool{}
	for _, s := range Table {
		if sources[s] || s.Name == "" || (len(s.Paths) == 0) == (s.Query == "") || s.Query == "" && s.take == nil {
			t.Errorf("source %s: twice, or without a way to read it", s.Name)
		}
		sources[s] = true
	}
	ids := map[string]bool{}
	used := map[*Source]bool{Clusters: true} // it decides about the answers of the others
	for _, c := range All() {
		if ids[c.ID] || c.ID == "" || c.Title == "" || c.Fault == "" || c.Means == "" || c.Run == nil || len(c.Looks)+len(c.Also) == 0 {
			t.Errorf("check %q is not whole, or is there twice", c.ID)
		}
		if strings.ContainsAny(c.ID, " _") || c.ID != strings.ToLower(c.ID) {
			t.Errorf("id %q", c.ID)
		}
		ids[c.ID] = true
		for _, s := range c.Reads() {
			if !sources[s] {
				t.Errorf("check %s reads %s, which no source has", c.ID, s.Name)
			}
			used[s] = true
		}
	}
	for s := range sources {
		if !used[s] {
			t.Errorf("%s is read for nothing", s.Name)
		}
	}
}

// Nothing is ok that was not read: with a source missing, every check of it without a
// finding is unknown or skipped.
func TestMissingIsNotOK(t *testing.T) {
	for _, c := range All() {
		f := empty()
		for _, d := range Table {
			f.Missing[d] = "you lack the right to read " + d.Name
		}
		r := Examine(f, []Check{c})
		if got := r.Checks[0]; got.Outcome != Unknown || got.Why == "" {
			t.Errorf("%s is %s where nothing could be read: %q", c.ID, got.Outcome, got.Why)
		}
	}
}

// TestKeepPod: the pods that checks read are kept.
func TestKeepPod(t *testing.T) {
	pod := func(image string, resources ...corev1.ResourceName) *corev1.Pod {
		c := corev1.Container{Image: image}
		for _, r := range resources {
			c.Resources.Limits = corev1.ResourceList{r: resource.MustParse("1")}
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "sidecar"}, c}}}
	}
	ended := pod("server", "nvidia.com/gpu")
	ended.Status.Phase = corev1.PodSucceeded
	ours := pod("x")
	ours.Labels = map[string]string{labelPartOf: partOf}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a web server":                  {pod("nginx", "cpu"), false},
		"one that requests a GPU":       {pod("server", "nvidia.com/gpu"), true},
		"one that requests an instance": {pod("server", "nvidia.com/mig-1g.10gb"), true},
		"one that has ended":            {ended, false},
		"ours by label":                 {ours, true},
		"ours by image":                 {pod("registry.example:5000/a/gpuscale-exporter:v1@sha256:0"), true},
		"NVIDIA's exporter":             {pod("nvcr.example/nvidia/k8s/dcgm-exporter:4.5"), true},
		"mig-manager":                   {pod("nvcr.example/nvidia/cloud-native/k8s-mig-manager:v1"), true},
		"one whose tag is misleading":   {pod("nginx:dcgm-exporter"), false},
	} {
		if got := keepPod(c.pod); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
