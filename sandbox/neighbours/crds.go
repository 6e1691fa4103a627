package neighbours

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

// Source is a set of CRDs: files in a Go module.
type Source struct {
	build.Neighbour
	Files []string // patterns of path.Match, below the module's root
}

// ClusterAPI returns Cluster API's CRDs, as its module has them.
func ClusterAPI() Source {
	return Source{build.ClusterAPI, []string{"core/config/crd/bases/cluster.x-k8s.io_machine*.yaml"}}
}

// Karpenter returns the CRDs of Karpenter's core. Node classes belong to the providers.
func Karpenter() Source {
	return Source{build.Karpenter, []string{"pkg/apis/crds/karpenter.sh_node*.yaml"}}
}

// ClusterAPIKinds returns the kinds of the objects that Machines maintains.
func ClusterAPIKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{capi.WithKind("MachineDeployment"), capi.WithKind("Machine")}
}

// Install creates the CRDs. The API server serves them a moment later.
func (s Source) Install(ctx context.Context, c client.Client) error {
	dir, err := s.Dir(ctx)
	if err != nil {
		return err
	}
	for _, pattern := range s.Files {
		if err := Apply(ctx, c, filepath.Join(dir, filepath.FromSlash(pattern))); err != nil {
			return fmt.Errorf("%s@%s: %w", s.Module, s.Version, err)
		}
	}
	return nil
}

// Apply creates the objects in the YAML files that match a pattern. Each function in keep may change an
// object or drop it. Existing objects stay unchanged.
func Apply(ctx context.Context, c client.Client, pattern string, keep ...func(*unstructured.Unstructured) bool) error {
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) == 0 {
		err = os.ErrNotExist
	}
	if err != nil {
		return fmt.Errorf("reading manifests %s: %w", pattern, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a manifest: %w", err)
		}
		objects, err := Parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, o := range objects {
			if slices.ContainsFunc(keep, func(keep func(*unstructured.Unstructured) bool) bool { return !keep(o) }) {
				continue
			}
			if err := Create(ctx, c, o); client.IgnoreAlreadyExists(err) != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// createTimeout is much longer than the API server takes to serve a new kind.
const createTimeout = 2 * time.Minute

// Create creates an object as soon as its kind is served and its namespace exists; for a pod, also its
// service account.
func Create(ctx context.Context, c client.Client, o client.Object) error {
	ctx, cancel := context.WithTimeoutCause(ctx, createTimeout, fmt.Errorf("not created after %s", createTimeout))
	defer cancel()
	err := await.Until(ctx, func(ctx context.Context) error {
		err := c.Create(ctx, o)
		early := meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "serviceaccount")
		if early {
			return err
		}
		return await.Final(err)
	})
	if err != nil {
		kind := cmp.Or(o.GetObjectKind().GroupVersionKind().Kind, fmt.Sprintf("%T", o))
		return fmt.Errorf("creating %s %s: %w", kind, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// Parse reads the objects of a YAML text.
func Parse(text []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", len(out), err)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}
