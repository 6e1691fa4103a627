package docs

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

// judge a block by its kind.
func (w *typist) judge(ctx context.Context, tree Tree, b Block) error {
	kind, err := b.Kind()
	if err != nil {
		return err
	}
	switch kind {
	case Manifest:
		return w.apply(ctx, b.Text)
	case JSON:
		var o struct{ APIVersion, Kind string }
		if json.Unmarshal([]byte(b.Text), &o) == nil && o.APIVersion != "" && o.Kind != "" {
			return w.apply(ctx, b.Text)
		}
		return b.CheckJSON()
	case Query:
		return b.CheckQueries()
	case Counters:
		return w.checkCounters(ctx, b)
	case File:
		return w.checkFile(ctx, b)
	case Commands:
		return w.commands(ctx, tree, b)
	}
	return nil
}

// apply asks the API server, strictly and without effect, whether it would take the
// objects, and makes those that are not there, since what follows may need them; they
// go with the page. Their namespaces are there, as the page expects.
func (w *typist) apply(ctx context.Context, text string) error {
	objects, err := neighbours.Parse([]byte(text))
	if err != nil {
		return err
	}
	strict := client.WithFieldValidation(w.admin, metav1.FieldValidationStrict)
	for _, o := range objects {
		if ns := o.GetNamespace(); ns != "" {
			if err := w.namespace(ctx, ns); err != nil {
				return err
			}
		}
		// What is there has fields that would make up for what the page lacks.
		fresh := o.DeepCopy()
		if err := w.admin.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()); err == nil {
			fresh.SetName(fresh.GetName() + "-reader")
		}
		if err := strict.Create(ctx, fresh, client.DryRunAll); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		err := w.admin.Create(ctx, o)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("making %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		w.ends = append(w.ends, func() { _ = w.admin.Delete(context.Background(), o) })
		if o.GetKind() == "CustomResourceDefinition" {
			if err := w.served(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// served waits until a CRD's objects can be asked for.
func (w *typist) served(ctx context.Context, crd *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _, _ := unstructured.NestedString(versions[0].(map[string]any), "name")
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"})
	return until(ctx, kind+" is served", func() error { return w.admin.List(ctx, list) })
}

// readers of the files that pages show, by the file's name.
var readers = []struct {
	names   []string // patterns of path.Match
	command string   // %s is the file; empty: none
}{
	{[]string{"adapter.yaml", "adapter-*.yaml", "prometheus-adapter.yaml"}, "gpuscale-adapter --check --config %s"},
	{[]string{"autoscaler.yaml", "autoscaler-*.yaml"}, "gpuscale-autoscaler --check --config %s"},
	{[]string{"agent.yaml"}, "gpuscale-autoscaler agent --check --config %s"},
	{[]string{"mine.yaml", "values.yaml", "values-*.yaml"}, "helm template gpuscale deploy/chart/gpuscale --namespace gpuscale-system --values %s > /dev/null"},
	{[]string{"alerts.yaml"}, "gpuscale-dashboards alerts --values %s --out /dev/null"},
	{[]string{"prometheus.yaml", "prometheus.yml"}, "promtool check config --syntax-only %s"},
	{[]string{"rules.yaml"}, "promtool check rules %s"},
	// Of charts that are not here: a parser is all that reads them.
	{[]string{"gpu-operator-values.yaml"}, ""},
}

var (
	theirFile    = regexp.MustCompile(`configFile: \S+`)
	namesBackend = regexp.MustCompile(`(?m)^(?:prometheus|backends):`)
)

func (w *typist) checkFile(ctx context.Context, b Block) error {
	name := b.FileName()
	if strings.HasSuffix(name, ".csv") {
		return w.checkCounters(ctx, b)
	}
	for _, r := range readers {
		if !slices.ContainsFunc(r.names, func(p string) bool { ok, _ := filepath.Match(p, name); return ok }) {
			continue
		}
		if r.command == "" {
			return yaml.Unmarshal([]byte(b.Text), &map[string]any{})
		}
		file := "read-" + name // as it stands in the page
		if err := w.write(file, theirFile.ReplaceAllString(b.Text, "configFile: prometheus-adapter.yaml")); err != nil {
			return err
		}
		command := fmt.Sprintf(r.command, file)
		if strings.HasPrefix(command, "gpuscale-adapter") && !namesBackend.MatchString(b.Text) {
			command += " --prometheus-url http://prometheus:9090" // a part of a file
		}
		if out, err := w.bash(ctx, command); err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
		return nil
	}
	return fmt.Errorf("nobody is known to read a file %s", name)
}

// checkCounters gives the exporter a counters file. It has no card here, which it
// says of its other parts.
func (w *typist) checkCounters(ctx context.Context, b Block) error {
	if err := w.write("read.csv", b.Text); err != nil {
		return err
	}
	out, _ := w.bash(ctx, "gpuscale-exporter check --collectors read.csv")
	if !strings.Contains(out, "counters  ok") && !strings.Contains(out, "counters ok") {
		return fmt.Errorf("the exporter does not take it: %s", out)
	}
	return nil
}
