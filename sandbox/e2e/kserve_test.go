package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// kserve is the version with which the recipe was checked, November 2026: config/crd/full for the fields;
// pkg/constants/constants.go for the annotations, the modes and PredictorServiceName;
// pkg/controller/v1beta1/inferenceservice/reconcilers/{autoscaler,deployment} for the meaning of "external"
// and the owner of the Deployment.
var kserve = neighbours.Source{
	Neighbour: build.Neighbour{Module: "github.com/kserve/kserve", Version: "v0.20.0"}, Files: []string{"config/crd/full/serving.kserve.io_inferenceservices.yaml"},
}

// TestKServeRecipe: KServe's own CRD accepts the recipe's objects. From the InferenceService the adapter
// finds the pods of the Deployment that the HPA scales. KServe's controller is simulated: it creates a
// Deployment NAME-predictor that the InferenceService controls.
func TestKServeRecipe(t *testing.T) {
	testall.Only(t, "downloads KServe's module for its CRD")
	e, err := testenv.Start(t.Context(), testenv.Options{})
	require.NoError(t, err)
	t.Cleanup(e.Stop)
	strict := client.WithFieldValidation(e.Admin, metav1.FieldValidationStrict)
	require.NoError(t, errors.Join(e.InstallSources(t.Context(), kserve), e.Namespace(t.Context(), "models", nil)))
	service, hpa := kserveRecipe(t)
	require.NoError(t, strict.Create(t.Context(), service))
	require.NoError(t, strict.Create(t.Context(), hpa))
	class := service.GetAnnotations()["serving.kserve.io/autoscalerClass"]
	if class != "external" || hpa.Spec.ScaleTargetRef.Name != service.GetName()+"-predictor" {
		t.Errorf("autoscaler class %q, target %q", class, hpa.Spec.ScaleTargetRef.Name)
	}
	for _, m := range hpa.Spec.Metrics {
		if o := m.Object.DescribedObject; o.APIVersion != service.GetAPIVersion() || o.Kind != service.GetKind() || o.Name != service.GetName() {
			t.Errorf("%s describes %+v", m.Object.Metric.Name, o)
		}
	}

	for _, d := range kserveObjects(t, "OWNER", string(service.GetUID()))[1:] {
		require.NoError(t, e.Admin.Create(t.Context(), d))
	}
	above := kserveHierarchy(t, e.Cluster)
	await.For(t, testenv.Patience, "the pods of the InferenceService", func() error {
		pods, err := above.Owned("models", schema.GroupKind{Group: "serving.kserve.io", Kind: "InferenceService"}, "llama")
		if err != nil {
			return err
		}
		of := func(deployment string) int {
			return len(slices.DeleteFunc(slices.Clone(pods), func(p string) bool { return !strings.HasPrefix(p, deployment+"-") }))
		}
		if len(pods) != 4 || of("llama-predictor") != 2 || of("llama-transformer") != 2 {
			return fmt.Errorf("%q", pods)
		}
		return nil
	})
}

func kserveHierarchy(t *testing.T, c *cluster.Cluster) *provider.Informers {
	t.Helper()
	meta, err := metadata.NewForConfig(c.RESTConfig())
	require.NoError(t, err)
	pods, err := provider.NewInformers(meta, c.Client())
	require.NoError(t, err)
	pods.Start(t.Context().Done())
	await.For(t, testenv.Patience, "the informers", func() error {
		_, err := pods.Owned("models", schema.GroupKind{Kind: "Any"}, "x")
		return err
	})
	return pods
}

// kserveRecipe returns the InferenceService with the annotation of docs/hpa.md, and that page's HPA.
func kserveRecipe(t *testing.T) (*unstructured.Unstructured, *autoscalingv2.HorizontalPodAutoscaler) {
	t.Helper()
	root, err := build.FindRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "docs", "hpa.md"))
	require.NoError(t, err)
	_, recipe, found := strings.Cut(string(text), "\n## 12. KServe\n")
	_, command, typed := strings.Cut(recipe, "kubectl -n models annotate inferenceservice llama ")
	annotation, _, _ := strings.Cut(command, " ")
	key, value, _ := strings.Cut(annotation, "=")
	_, manifest, fenced := strings.Cut(recipe, "```yaml\n")
	manifest, _, closed := strings.Cut(manifest, "```")
	if !found || !typed || !fenced || !closed {
		t.Fatal("docs/hpa.md has no recipe for KServe of an annotation and an HPA")
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), hpa))
	return kserveObjects(t, "ANNOTATION", key, "VALUE", value)[0], hpa
}

// kserveObjects returns the objects of testdata/kserve.yaml with words replaced.
func kserveObjects(t *testing.T, words ...string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := neighbours.Parse([]byte(testenv.Text(t, "testdata/kserve.yaml", words...)))
	require.NoError(t, err)
	return objects
}
