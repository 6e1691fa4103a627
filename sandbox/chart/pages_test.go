package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/docs"
)

// blocks returns the blocks of one kind from the pages for users.
func blocks(t *testing.T, b *env, want docs.Kind) []docs.Block {
	t.Helper()
	tree, err := docs.ReadTree(b.Root, docs.ForUsers)
	require.NoError(t, err)
	var out []docs.Block
	for _, p := range tree.Pages {
		for _, block := range p.Blocks {
			if kind, err := block.Kind(); err == nil && kind == want {
				out = append(out, block)
			}
		}
	}
	return out
}

// TestManifestsOfThePages: the API server accepts each object that a page shows, and those of
// deploy/manifests, with strict validation and dry run.
func TestManifestsOfThePages(t *testing.T) {
	b := start(t)
	strict := client.WithFieldValidation(b.Admin, metav1.FieldValidationStrict)
	judge := func(text string) error {
		objects, err := chart.Objects([]byte(text)) // rejects duplicate keys
		if err != nil {
			return err
		}
		for _, o := range objects {
			if ns := o.GetNamespace(); ns != "" {
				if err := b.namespace(t.Context(), ns, ""); err != nil {
					return err
				}
			}
			// The API server checks last whether the object already exists.
			if err := strict.Create(t.Context(), o, client.DryRunAll); client.IgnoreAlreadyExists(err) != nil {
				return err
			}
		}
		return nil
	}
	all := blocks(t, b, docs.Manifest)
	for _, block := range all {
		if err := judge(block.Text); err != nil {
			t.Errorf("%s:%d: %v", block.Page, block.Line, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(b.Root, "deploy/manifests/*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = judge(string(text))
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if len(all) < 20 || len(files) == 0 {
		t.Errorf("only %d blocks and %d files were found", len(all), len(files))
	}
	for _, wrong := range []struct{ old, by, want string }{
		{"max: 2", "max: 2\n  max: 3", "already set"}, {"max: 2", "max: 2\n  maximum: 2", `unknown field "spec.maximum"`}, {"max: 2", "max: -1", "spec.max"}, {"GPUNodePool", "GPUNodePol", "GPUNodePol"},
	} {
		if err := judge(strings.Replace(ghostPool, wrong.old, wrong.by, 1)); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%s: %v, want %q", wrong.by, err, wrong.want)
		}
	}
}

const ghostPool = `
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: ghost}
spec:
  min: 0
  max: 2
  provider: {scale: {apiVersion: example.org/v1, kind: Herd, namespace: team, name: missing}}
  template: {product: NVIDIA-H100-80GB-HBM3, gpus: 8, cpu: "64", memory: 512Gi}
`

// placeholders replaces what readers fill in by names of this environment.
var placeholders = strings.NewReplacer("gpuscale-system", installed, "NAMESPACE", "team", "NS", "team", "NODE", "whole-1", "POOL", "whole", "POD", "embed", "NAME", "embed", "METRIC", "gpu_busy")

var looking = regexp.MustCompile(`^kubectl (-n \S+ |--namespace \S+ )?(get|describe|api-resources|auth can-i) `)

// TestReadingCommandsOfThePages runs the commands that only show something. An object that does not exist
// here is no mistake of the page. A kind, a column or a path that does not exist is one.
func TestReadingCommandsOfThePages(t *testing.T) {
	testall.Only(t, "kubectl's own reading of what sandbox/docs looks up")
	b := start(t)
	n := 0
	for _, block := range blocks(t, b, docs.Commands) {
		for _, c := range block.Commands() {
			segments, err := docs.Words(placeholders.Replace(c.Text))
			if err != nil || !looking.MatchString(c.Text) || slices.ContainsFunc(segments[0], func(w string) bool {
				// Here the API server cannot reach pods or nodes over the network.
				return w == "-w" || w == "--watch" || strings.Contains(w, "$(") || strings.Contains(w, "/proxy/")
			}) {
				continue
			}
			n++
			cmd := exec.CommandContext(patient(t), b.Binaries.Program("kubectl"), segments[0][1:]...)
			cmd.Env = []string{"HOME=" + b.Cluster.Dir(), "KUBECONFIG=" + b.Cluster.Kubeconfig()}
			if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "Error from server (NotFound)") {
				t.Errorf("%s:%d: %s: %v: %s", c.Page, c.Line, c.Text, err, out)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d commands were found", n)
	}
}
