package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
		if !strings.Contains(m[1], "  # -- Measured") {
			t.Errorf("resources without a figure, below %q", m[1])
		}
	}
	if len(all) != 5 {
		t.Errorf("%d programs, want 5", len(all))
	}
}
