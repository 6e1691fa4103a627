package chart

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// TestTheAPIServerTakesEveryCombination applies each object of each combination with strict validation and
// dry run. The projects' own CRDs validate custom resources. Field ownership is forced, and so not tested,
// since another test may have installed the chart on this control plane.
func TestTheAPIServerTakesEveryCombination(t *testing.T) {
	b := onPlane(t)
	for _, ns := range []string{"combinations", "gpu-operator"} {
		require.NoError(t, b.namespace(t.Context(), ns, ""))
	}
	strict := client.WithFieldValidation(b.Admin, metav1.FieldValidationStrict)
	asked := map[string]bool{}
	for _, c := range renderAll(t) {
		t.Run(c.Name, func(t *testing.T) {
			for _, o := range c.objects {
				text, err := json.Marshal(o)
				require.NoError(t, err)
				if asked[string(text)] {
					continue // another combination has the same object
				}
				asked[string(text)] = true
				if err := strict.Patch(t.Context(), o.DeepCopy(), client.RawPatch(types.ApplyYAMLPatchType, text),
					client.DryRunAll, client.FieldOwner("chart"), client.ForceOwnership); err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
	if least := 300; testall.Enabled() && len(asked) < least {
		t.Errorf("only %d objects were asked about", len(asked))
	}
	// Validation must be able to fail, both for our kinds and for other projects' kinds.
	for _, text := range []string{
		`{"apiVersion":"monitoring.coreos.com/v1","kind":"PodMonitor","metadata":{"name":"x","namespace":"combinations"},"spec":{"podMetricEndpoints":[],"selector":{}}}`,
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x","namespace":"combinations"},"spec":{"port":[]}}`,
	} {
		bad := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal([]byte(text), bad))
		if err := strict.Patch(t.Context(), bad, client.RawPatch(types.ApplyYAMLPatchType, []byte(text)), client.DryRunAll, client.FieldOwner("chart"), client.ForceOwnership); err == nil {
			t.Errorf("a field that there is not is taken: %s", text)
		}
	}
}

// TestProgramsTakeWhatIsRendered: the programs themselves read the configurations and flags of every
// combination.
func TestProgramsTakeWhatIsRendered(t *testing.T) {
	b := onPlane(t)
	for _, c := range renderAll(t) {
		t.Run(c.Name, func(t *testing.T) {
			for _, o := range c.objects {
				component := o.GetLabels()["app.kubernetes.io/component"]
				if !slices.Contains([]string{"Deployment", "DaemonSet"}, o.GetKind()) {
					continue
				}
				p := podOf(t, o)
				args, _, err := mounted(p.Spec, t.TempDir(), func(v corev1.Volume) (map[string][]byte, error) { return rendered(c.objects, v), nil })
				require.NoError(t, err)
				check := "--check"
				if component == "exporter" {
					check = "--help" // its check needs a node; flags are parsed before --help is handled
				}
				out, err := exec.CommandContext(t.Context(), filepath.Join(b.Programs, "gpuscale-"+component), append(args, check)...).CombinedOutput()
				if err != nil {
					t.Errorf("%s %q: %v: %s", component, args, err, out)
				}
			}
		})
	}
}

// podOf returns the pod that a workload's controller would create.
func podOf(t *testing.T, o *unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	path := []string{"spec", "template"}
	if o.GetKind() == "CronJob" {
		path = []string{"spec", "jobTemplate", "spec", "template"}
	}
	template, found, err := unstructured.NestedMap(o.Object, path...)
	if err != nil || !found {
		t.Fatalf("%s has no pods: %v", o.GetKind(), err)
	}
	var p corev1.PodTemplateSpec
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(template, &p))
	p.Name, p.Namespace = o.GetName(), o.GetNamespace()
	return &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
}

// rendered returns the content of a volume, from the rendered objects.
func rendered(objects []*unstructured.Unstructured, v corev1.Volume) map[string][]byte {
	out := map[string][]byte{}
	for _, o := range objects {
		if v.ConfigMap == nil || o.GetKind() != "ConfigMap" || o.GetName() != v.ConfigMap.Name {
			continue
		}
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		for name, text := range data {
			out[name] = []byte(text)
		}
	}
	return out
}

// mounted writes the content of the pod's volumes below dir. It returns the first container's arguments with
// these paths, and the paths by volume name.
func mounted(spec corev1.PodSpec, dir string, content func(corev1.Volume) (map[string][]byte, error)) (args []string, paths map[string]string, err error) {
	c := spec.Containers[0]
	args, paths = slices.Clone(c.Args), map[string]string{}
	for _, m := range c.VolumeMounts {
		to := filepath.Join(dir, m.MountPath)
		for i := range args {
			args[i] = strings.Replace(args[i], "="+m.MountPath+"/", "="+to+"/", 1)
		}
		if err := os.MkdirAll(to, 0o700); err != nil {
			return nil, nil, err
		}
		at := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if at < 0 {
			continue
		}
		files, err := content(spec.Volumes[at])
		if err != nil {
			return nil, nil, err
		}
		for name, text := range files {
			paths[name] = filepath.Join(to, name)
			// Atomically, as the kubelet does it: a program may be reading the file.
			if err := errors.Join(os.WriteFile(paths[name]+".new", text, 0o600), os.Rename(paths[name]+".new", paths[name])); err != nil {
				return nil, nil, err
			}
		}
	}
	return args, paths, nil
}

// TestPodSecurity: Kubernetes' own admission decides which pods are admitted in which namespace.
func TestPodSecurity(t *testing.T) {
	b := onPlane(t)
	levels := []string{"restricted", "baseline", "privileged"}
	for _, level := range levels {
		require.NoError(t, b.namespace(t.Context(), "level-"+level, level))
	}
	admitted := map[string][]string{
		"adapter":    {"restricted", "baseline", "privileged"},
		"autoscaler": {"restricted", "baseline", "privileged"},
		"report":     {"restricted", "baseline", "privileged"},
		"exporter":   {"privileged"},
		"agent":      {"privileged"},
	}
	objects, err := b.helm.Template(t.Context(), chart.Release{Name: "demo", Namespace: "x", Values: chart.Everything})
	require.NoError(t, err)
	seen := 0
	for _, o := range objects {
		component := o.GetLabels()["app.kubernetes.io/component"]
		if !slices.Contains([]string{"Deployment", "DaemonSet", "CronJob"}, o.GetKind()) {
			continue
		}
		seen++
		for _, level := range levels {
			p := podOf(t, o)
			p.Namespace = "level-" + level
			p.Spec.ServiceAccountName = "default"
			p.Spec.PriorityClassName = ""
			err := b.Admin.Create(t.Context(), p, client.DryRunAll)
			switch want := slices.Contains(admitted[component], level); {
			case want && err != nil:
				t.Errorf("%s is refused under %s: %v", component, level, err)
			case !want && err == nil:
				t.Errorf("%s is admitted under %s", component, level)
			case !want && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "violates PodSecurity")):
				t.Errorf("%s under %s: %v", component, level, err)
			}
		}
	}
	if seen != len(admitted) {
		t.Errorf("%d workloads were tried, want %d", seen, len(admitted))
	}
}
