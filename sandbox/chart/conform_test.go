package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/chart/schemas"
)

// TestKubeconform holds the text of every combination, and that of the example
// manifests, against schemas made of what this API server says of its types. It sees
// what is lost before an API server looks: a key that is written twice.
func TestKubeconform(t *testing.T) {
	b := start(t)
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	tool, err := chart.Tool(root, "kubeconform")
	if err != nil {
		t.Skip(err) // make test builds it first
	}
	texts := map[string][]byte{}
	for _, r := range renderAll(t, b) {
		if len(r.objects) > 0 {
			texts[r.Name] = r.text
		}
	}
	examples, err := filepath.Glob(filepath.Join(root, "deploy/manifests/*.yaml"))
	if err != nil || len(examples) == 0 {
		t.Fatal("no manifests: ", err)
	}
	for _, path := range examples {
		if texts[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	for _, r := range conform(t, b, tool, texts) {
		asked++
		if r.Status != "statusValid" {
			t.Errorf("%s: %s %s: %s: %s", r.Filename, r.Kind, r.Name, r.Status, r.Msg)
		}
	}
	t.Logf("%d objects of %d texts", asked, len(texts))
	if asked < 1000 {
		t.Errorf("only %d objects were looked at", asked)
	}
}

// TestKubeconformSaysNo: the schemas are closed where the server is, and open where
// it is.
func TestKubeconformSaysNo(t *testing.T) {
	b := start(t)
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	tool, err := chart.Tool(root, "kubeconform")
	if err != nil {
		t.Skip(err)
	}
	const (
		service = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n"
		pool    = "apiVersion: gpuscale.io/v1alpha1\nkind: GPUNodePool\nmetadata: {name: x}\nspec: {min: 0, provider: {kwok: {}}, template: {product: NVIDIA-H100-80GB-HBM3, cards: 8, cpu: 32, memory: 256Gi}, "
		crd     = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.example.org}\n" +
			"spec:\n  group: example.org\n  names: {kind: X, plural: xs}\n  scope: Cluster\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      "
		deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n      - {name: x, image: x, "
	)
	texts := map[string][]byte{}
	for name, text := range map[string]string{
		"good: a port's name":                  service + "spec: {ports: [{port: 1, targetPort: http}]}",
		"good: a port's number":                service + "spec: {ports: [{port: 1, targetPort: 8080}]}",
		"bad: a port that is neither":          service + "spec: {ports: [{port: 1, targetPort: true}]}",
		"bad: a field that there is not":       service + "spec: {port: []}",
		"bad: a key that is written twice":     service + "spec:\n  ports: [{port: 1}]\n  ports: [{port: 2}]",
		"bad: a null":                          service + "spec: {ports: null}",
		"bad: metadata":                        "apiVersion: v1\nkind: Service\nmetadata: {name: x, label: {}}",
		"good: amounts":                        deployment + "resources: {limits: {cpu: 0.5, memory: 1Gi, nvidia.com/gpu: 1}}}",
		"bad: no amount":                       deployment + "resources: {limits: {cpu: [1]}}}",
		"bad: deep below":                      deployment + "securityContext: {capabilities: {dropped: [ALL]}}}",
		"bad: a kind that nobody serves":       "apiVersion: apps/v1\nkind: Deploiment\nmetadata: {name: x}",
		"good: a field with anything in it":    "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: x}\nrevision: 1\ndata: {any: {thing: [1]}}",
		"good: ours":                           pool + "max: 3}",
		"bad: ours, misspelt":                  pool + "max: 3, maxi: 3}",
		"bad: ours, of another type":           pool + "max: three}",
		"bad: another project's, misspelt":     "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: x}\nspec: {selector: {}, podMetricEndpoints: []}",
		"good: a schema":                       crd + "openAPIV3Schema: {type: object, properties: {spec: {type: object, default: {any: [thing]}, x-kubernetes-preserve-unknown-fields: true}}}",
		"bad: a schema, misspelt":              crd + "openAPIV3Schema: {type: object, propertys: {}}",
		"bad: a schema, misspelt further down": crd + "openAPIV3Schema: {type: object, properties: {spec: {typ: object}}}",
	} {
		texts[name] = []byte(text)
	}
	results := conform(t, b, tool, texts)
	if len(results) != len(texts) {
		t.Errorf("%d results of %d objects", len(results), len(texts))
	}
	for _, r := range results {
		if good := strings.HasPrefix(r.Filename, "good"); good != (r.Status == "statusValid") {
			t.Errorf("%s: %s: %s", r.Filename, r.Status, r.Msg)
		}
	}
}

// conformity is what kubeconform says of one object.
type conformity struct {
	Filename, Kind, Name, Version, Status, Msg string
}

// conform runs kubeconform over texts by name, in the strict way. A kind without a
// schema is refused.
func conform(t *testing.T, b *bed, tool string, texts map[string][]byte) []conformity {
	t.Helper()
	dir := t.TempDir()
	names := slices.Sorted(maps.Keys(texts))
	for i, name := range names {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.yaml", i)), texts[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), tool, "-strict", "-verbose", "-output=json",
		"-schema-location="+filepath.Join(writeSchemas(t, b), schemas.Location), dir)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output() // it exits 1 when something is refused
	var said struct{ Resources []conformity }
	if json.Unmarshal(out, &said) != nil || len(said.Resources) == 0 {
		t.Fatalf("kubeconform: %v: %s %s", err, out, stderr.String())
	}
	for i := range said.Resources {
		r := &said.Resources[i]
		var n int
		if _, err := fmt.Sscanf(filepath.Base(r.Filename), "%d.yaml", &n); err != nil || n >= len(names) {
			t.Fatalf("a file of nobody's: %q", r.Filename)
		}
		r.Filename = names[n]
	}
	return said.Resources
}

// writeSchemas writes a schema of every kind of the API server into a folder. What
// is aggregated is left out: it may not answer.
func writeSchemas(t *testing.T, b *bed) string {
	t.Helper()
	b.ownCRDs(t)
	dir := t.TempDir()
	server, err := discovery.NewDiscoveryClientForConfig(b.cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	// The server publishes CRDs some time after it serves them.
	kinds := []string{"gpuscale.io_v1alpha1_gpunodepool.json", "gpuscale.io_v1alpha1_gpuquota.json"}
	for _, gvk := range neighbourKinds {
		kinds = append(kinds, strings.ToLower(fmt.Sprintf("%s_%s_%s.json", gvk.Group, gvk.Version, gvk.Kind)))
	}
	until(t, soon, "schemas of all kinds", func() error {
		paths, err := server.OpenAPIV3().Paths()
		if err != nil {
			return err
		}
		for path, group := range paths {
			if strings.Contains(path, "metrics.k8s.io") {
				continue
			}
			document, err := group.Schema("application/json")
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			files, err := schemas.FromOpenAPI(document)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, kind := range kinds {
			if _, err := os.Stat(filepath.Join(dir, kind)); err != nil {
				return err
			}
		}
		return nil
	})
	return dir
}

// ownCRDs has our CRDs in the cluster while the test runs. Where another test has the
// chart installed they are there; where none has, they go again, or Helm would find
// CRDs that are not its own.
func (b *bed) ownCRDs(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(b.helm.Chart, "files/crds/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no CRDs: ", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := chart.Objects(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			switch err := b.admin.Create(t.Context(), o); {
			case apierrors.IsAlreadyExists(err):
			case err != nil:
				t.Fatal(err)
			default:
				t.Cleanup(func() { b.remove(t, o) })
			}
		}
	}
}

// remove deletes an object and waits until it is gone. The test's own context has
// ended when this runs.
func (b *bed) remove(t *testing.T, o *unstructured.Unstructured) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	err := b.admin.Delete(ctx, o)
	for err == nil {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(50 * time.Millisecond):
			err = b.admin.Get(ctx, client.ObjectKeyFromObject(o), o)
		}
	}
	if !apierrors.IsNotFound(err) {
		t.Errorf("%s stays: %v", o.GetName(), err)
	}
}
