package world

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

// aggregated is where an aggregated API server really listens.
type aggregated struct {
	port     int
	caBundle []byte
}

// applyManifests creates what the folders of a checkout declare, the same
// files that a cluster gets, with the differences a sandbox needs: programs
// are processes here, so no Deployment and no DaemonSet; and the API server
// reaches an aggregated one on the loopback through a Service of type
// ExternalName, at its real port.
func applyManifests(ctx context.Context, c client.Client, root string, adapter aggregated, folders ...string) error {
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.yaml"))
		if err != nil {
			return fmt.Errorf("listing %s: %w", folder, err)
		}
		sort.Strings(files)
		for _, file := range files {
			objects, err := readManifest(file)
			if err != nil {
				return err
			}
			for _, o := range objects {
				if !adapt(o, adapter) {
					continue
				}
				if err := create(ctx, c, o); err != nil {
					return fmt.Errorf("%s: %w", filepath.Base(file), err)
				}
			}
		}
	}
	return nil
}

func readManifest(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	objects, err := neighbours.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return objects, nil
}

// adapt changes an object for the sandbox; false drops it.
func adapt(o *unstructured.Unstructured, adapter aggregated) bool {
	switch o.GetKind() {
	case "Deployment", "DaemonSet", "ServiceMonitor", "PodMonitor", "PrometheusRule", "NetworkPolicy", "PodDisruptionBudget", "Namespace":
		return false
	case "Service":
		o.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
	case "APIService":
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		if spec == nil {
			return true // the API server will report what is missing
		}
		delete(spec, "insecureSkipTLSVerify")
		spec["caBundle"] = base64.StdEncoding.EncodeToString(adapter.caBundle)
		if service, ok := spec["service"].(map[string]any); ok {
			service["port"] = int64(adapter.port)
		}
		o.Object["spec"] = spec
	}
	return true
}
