package chart_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

// exceptions are what kube-score finds and we do not do, by component (or "*") and
// check, each with its reason.
var exceptions = []struct{ component, check, why string }{
	{"*", "container-resources", "no processor limit: it would throttle a program that is late already; memory has one"},
	{"*", "container-ephemeral-storage-request-and-limit", "nothing is written but to memory, a bounded emptyDir or a claim"},
	{"*", "container-image-pull-policy", "tags are those of releases and do not move; image.pullPolicy is there for others"},
	{"*", "deployment-has-host-podantiaffinity", "topologySpreadConstraints do it, softly, so that one node is enough"},
	{"exporter", "container-security-context-user-group-id", "root: the kubelet's socket is root's"},
	{"agent", "container-security-context-user-group-id", "root: MIG cannot be configured by less"},
	{"report", "cronjob-has-deadline", "a report that could not be begun on Monday is welcome on Tuesday"},
}

// TestKubeScore: what kube-score finds beyond the exceptions, and which exceptions
// it no longer finds.
func TestKubeScore(t *testing.T) {
	h := helm(t)
	root, err := build.FindRoot()
	require.NoError(t, err)
	tool, err := chart.Tool(root, "kube-score")
	require.NoError(t, err)
	text, err := h.Run(t.Context(), chart.Release{Namespace: namespace, Values: chart.Everything}, "template", release, h.Chart)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), tool, "score", "--output-format=json", "--kubernetes-version=v1.30", "-")
	cmd.Stdin = bytes.NewReader(text)
	out, err := cmd.Output() // it exits 1 when it finds something
	if len(out) == 0 {
		t.Fatalf("kube-score printed nothing: %v", err)
	}
	var found []struct {
		Name   string `json:"object_name"`
		Object struct {
			Labels map[string]string
		} `json:"object_meta"`
		Checks []struct {
			Check    struct{ ID string }
			Grade    int
			Skipped  bool
			Comments []struct{ Summary, Path string }
		}
	}
	require.NoError(t, json.Unmarshal(out, &found))
	if len(found) < 10 {
		t.Fatalf("it looked at %d objects", len(found))
	}
	used := make([]bool, len(exceptions))
	for _, o := range found {
		for _, c := range o.Checks {
			if c.Skipped || c.Grade >= 10 {
				continue
			}
			excused := false
			for i, e := range exceptions {
				if e.check == c.Check.ID && (e.component == "*" || strings.HasSuffix(o.Name, e.component)) {
					excused, used[i] = true, true
				}
			}
			if !excused {
				t.Errorf("%s: %s: %v", o.Name, c.Check.ID, c.Comments)
			}
		}
	}
	for i, e := range exceptions {
		if !used[i] {
			t.Errorf("the exception %s %s is not needed", e.component, e.check)
		}
	}
}
