package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscale/gpuscale/deploy/chart"
)

// TestResourcesAreMeasured: what a program asks for stands below the figure that it
// was set by.
func TestResourcesAreMeasured(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("gpuscale", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)((?:^  #.*\n)*)^  resources:$`).FindAllStringSubmatch(string(text), -1)
	for _, m := range all {
		if !strings.Contains(m[1], "  # Measured") {
			t.Errorf("resources without a figure, below %q", m[1])
		}
	}
	if len(all) != 5 {
		t.Errorf("%d programs, want 5", len(all))
	}
}

// TestTheManifestsAskForAsMuch: the chart and the example manifests run the same
// programs.
func TestTheManifestsAskForAsMuch(t *testing.T) {
	h := helm(t)
	resources := func(objects []*unstructured.Unstructured) map[string]string {
		out := map[string]string{}
		for _, o := range objects {
			if k := o.GetKind(); k != "Deployment" && k != "DaemonSet" {
				continue
			}
			containers, _, err := unstructured.NestedSlice(podSpec(t, o), "containers")
			if err != nil || len(containers) == 0 {
				t.Fatalf("%s has no containers: %v", id(o), err)
			}
			c := containers[0].(map[string]any)
			out[c["name"].(string)] = asJSON(t, c["resources"])
		}
		return out
	}
	want := resources(render(t, h, chart.Everything))
	files, err := filepath.Glob("../manifests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := chart.Objects(text)
		if err != nil {
			t.Fatal(err)
		}
		for name, have := range resources(objects) {
			compared++
			if have != want[name] {
				t.Errorf("%s: %s asks for %s, in the chart for %s", filepath.Base(file), name, have, want[name])
			}
		}
	}
	if compared < 3 {
		t.Errorf("only %d programs compared", compared)
	}
}
