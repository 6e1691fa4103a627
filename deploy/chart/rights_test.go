package chart_test

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/require"
)

// rules of a ClusterRole or Role, as lines: groups resources verbs [names].
func rules(t *testing.T, o *unstructured.Unstructured) []string {
	t.Helper()
	var role rbacv1.ClusterRole // a Role has the same rules
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role))
	var out []string
	for _, r := range role.Rules {
		for _, verb := range r.Verbs {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					line := fmt.Sprintf("%-7s %s", verb, resource)
					if group != "" {
						line += "." + group
					}
					if len(r.ResourceNames) > 0 {
						line += " " + strings.Join(r.ResourceNames, ",")
					}
					out = append(out, line)
				}
			}
			for _, url := range r.NonResourceURLs {
				out = append(out, fmt.Sprintf("%-7s %s", verb, url))
			}
		}
	}
	sort.Strings(out)
	return out
}

// roles are the rendered roles' rules by kind, namespace and name.
func roles(t *testing.T, objects []*unstructured.Unstructured) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, o := range objects {
		if k := o.GetKind(); k == "ClusterRole" || k == "Role" {
			out[strings.TrimSpace(k+" "+o.GetNamespace()+" "+o.GetName())] = rules(t, o)
		}
	}
	return out
}

// bindings are who has what: subject → role.
func bindings(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	var out []string
	for _, o := range objects {
		if k := o.GetKind(); k != "ClusterRoleBinding" && k != "RoleBinding" {
			continue
		}
		var b rbacv1.ClusterRoleBinding
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b))
		where := "everywhere"
		if o.GetNamespace() != "" {
			where = "in " + o.GetNamespace()
		}
		for _, s := range b.Subjects {
			out = append(out, fmt.Sprintf("%s/%s has %s %s %s", s.Namespace, s.Name, b.RoleRef.Kind, b.RoleRef.Name, where))
		}
	}
	sort.Strings(out)
	return out
}

// TestRights holds every right of every option against a file, so that a change of
// one is seen in the diff.
func TestRights(t *testing.T) {
	h := helm(t)
	var b strings.Builder
	for _, c := range []struct{ name, values string }{
		{"defaults", ""},
		{"adapter and autoscaler", `{adapter: {enabled: true}, autoscaler: {enabled: true}}`},
		{"dry run", `{adapter: {enabled: true}, autoscaler: {enabled: true, dryRun: true}}`},
		{"everything", chart.Everything},
	} {
		objects := render(t, h, c.values)
		fmt.Fprintf(&b, "# %s\n", c.name)
		all := roles(t, objects)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(&b, "\n%s\n", name)
			for _, r := range all[name] {
				fmt.Fprintf(&b, "    %s\n", r)
			}
		}
		fmt.Fprintf(&b, "\n%s\n\n", strings.Join(bindings(t, objects), "\n"))
	}
	golden.Equal(t, "testdata/rights.txt", b.String())
}

// leastPrivilege: no program may use a right that is not listed, none may read a
// Secret, and the exporter asks the API server nothing unless an option needs it.
func leastPrivilege(t *testing.T, c chart.Combination, objects []*unstructured.Unstructured) {
	t.Helper()
	for name, rules := range roles(t, objects) {
		for _, r := range rules {
			// Users' own role: a resource of the metrics APIs is a metric's name.
			if strings.Contains(r, "*") && !strings.HasSuffix(name, "-metrics-reader") {
				t.Errorf("%s: %s: a star", name, r)
			}
			for _, never := range []string{"secrets", "impersonate", "escalate", "bind ", "pods/exec", "nodes/proxy", "serviceaccounts"} {
				if strings.Contains(r, never) {
					t.Errorf("%s: %s: nothing of ours needs that", name, r)
				}
			}
		}
	}
	if strings.Contains(c.Values, "exporter:") {
		return
	}
	for _, b := range bindings(t, objects) {
		openshift := strings.Contains(c.Values, "openshift:") && strings.HasSuffix(b, "system:openshift:scc:privileged in "+namespace)
		if strings.Contains(b, "-exporter has") && !openshift {
			t.Errorf("%s, and no option of the exporter asks for it", b)
		}
	}
}

// TestTokens: a token is only in pods that use the API server.
func TestTokens(t *testing.T) {
	h := helm(t)
	for _, c := range []struct {
		name, values string
		with         []string
	}{
		{"defaults", "", nil},
		{"all programs", `{adapter: {enabled: true}, autoscaler: {enabled: true}, report: {enabled: true}, agent: {enabled: true}}`, []string{"adapter", "agent", "autoscaler"}},
		{"condition", `{exporter: {nodeCondition: true}}`, []string{"exporter"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var with []string
			for _, o := range render(t, h, c.values) {
				switch o.GetKind() {
				case "ServiceAccount":
					if on, found, _ := unstructured.NestedBool(o.Object, "automountServiceAccountToken"); !found || on {
						t.Errorf("%s mounts its token everywhere", id(o))
					}
				case "Deployment", "DaemonSet", "CronJob":
					on, found, _ := unstructured.NestedBool(podSpec(t, o), "automountServiceAccountToken")
					if !found {
						t.Errorf("%s does not say whether it needs a token", id(o))
					}
					if on {
						with = append(with, o.GetLabels()["app.kubernetes.io/component"])
					}
				}
			}
			sort.Strings(with)
			if !slices.Equal(with, c.with) {
				t.Errorf("a token is in the pods of %q, want %q", with, c.with)
			}
		})
	}
}

// podSpec of a workload.
func podSpec(t *testing.T, o *unstructured.Unstructured) map[string]any {
	t.Helper()
	path := []string{"spec", "template", "spec"}
	if o.GetKind() == "CronJob" {
		path = append([]string{"spec", "jobTemplate"}, path...)
	}
	spec, found, err := unstructured.NestedMap(o.Object, path...)
	if err != nil || !found {
		t.Fatalf("%s has no pods: %v", id(o), err)
	}
	return spec
}
