package chart_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestImageDigests: the values that a release writes from goreleaser's digests (v2.15: a
// digest without its algorithm, a blank, the image and its tag) name its images by digest.
func TestImageDigests(t *testing.T) {
	h := helm(t)
	dist := t.TempDir()
	var lines strings.Builder
	programs := []string{"adapter", "agent", "autoscaler", "exporter", "report"}
	for i, p := range programs {
		lines.WriteString(strings.Repeat(string(rune('a'+i)), 64) + " registry.example:5000/gpus/gpuscale-" + p + ":0.1.0\n")
	}
	make := func() error {
		cmd := exec.Command("make", "-s", "image-digests", "DIST="+dist, "VERSION=0.1.0")
		cmd.Dir = filepath.Join("..", "..")
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "digests.txt has no image") {
			t.Fatalf("%v: %s", err, out)
		}
		return err
	}
	if make() == nil {
		t.Error("values are written although no image was pushed")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dist, "digests.txt"), []byte(lines.String()), 0o600))
	require.NoError(t, make())
	out, err := h.Run(t.Context(), chart.Release{Name: "our.demo", Values: "image: {registry: \"registry.example:5000/gpus\", tag: \"0.1.0\"}\n" + chart.Everything,
		Args: []string{"--values", filepath.Join(dist, "gpuscale-images-0.1.0.yaml")}}, "template", "our.demo", h.Chart)
	require.NoError(t, err)
	for i, p := range programs {
		want := `image: "registry.example:5000/gpus/gpuscale-` + p + "@sha256:" + strings.Repeat(string(rune('a'+i)), 64) + `"`
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s", want)
		}
	}
	for bad, why := range map[string]string{":0.1.0\"\n": "an image is still named by its tag", "our.demo-": "a Service's name may have no dot"} {
		if strings.Contains(string(out), bad) {
			t.Error(why)
		}
	}
}

// TestBasesAreNamedByDigest: a release refuses a base image that is named by a tag.
func TestBasesAreNamedByDigest(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		says string
	}{
		"none":   {nil, "GO_BASE is not named by digest"},
		"a tag":  {[]string{"GO_BASE=golang@sha256:1", "GLIBC_BASE=debian:bookworm-slim"}, "GLIBC_BASE is not named by digest: docker buildx imagetools inspect debian:bookworm-slim"},
		"digest": {[]string{"GO_BASE=golang@sha256:1", "GLIBC_BASE=debian@sha256:2"}, ""},
	} {
		cmd := exec.Command("make", "-s", "bases")
		cmd.Dir = filepath.Join("..", "..")
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, c.env...)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (c.says == "") || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// TestActionsAreNamedByDigest: a tag of an action may be other code tomorrow. setup-go reads go.mod's "go 1.26.0" as
// exactly that Go (v7.0.0, src/installer.ts), so no workflow may have it read go.mod.
func TestActionsAreNamedByDigest(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no workflow: %v", err)
	}
	pinned := regexp.MustCompile(`uses: [a-z/-]+@[0-9a-f]{40} # v[0-9.]+$`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "uses:") && !pinned.MatchString(line) || strings.Contains(line, "go-version-file") {
				t.Errorf("%s:%d: %s", file, i+1, line)
			}
		}
	}
}
