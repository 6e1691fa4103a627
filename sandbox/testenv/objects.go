package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// Patience bounds operations that take seconds on an idle machine.
const Patience = 2 * time.Minute

// Object returns an object of a kind, for example "apps/v1/Deployment".
func Object(kind, namespace, name string) *unstructured.Unstructured {
	at := strings.LastIndexByte(kind, '/')
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(kind[:at])
	u.SetKind(kind[at+1:])
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// awaitCRDs waits until all CRDs of the cluster are served.
func (e *Env) awaitCRDs(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, fmt.Errorf("the CRDs are not served after %s", Patience))
	defer cancel()
	crds := &unstructured.UnstructuredList{}
	crds.SetAPIVersion("apiextensions.k8s.io/v1")
	crds.SetKind("CustomResourceDefinitionList")
	return await.Until(ctx, func(ctx context.Context) error {
		if err := e.Admin.List(ctx, crds); err != nil {
			return err
		}
		for _, crd := range crds.Items {
			if err := e.served(ctx, crd); err != nil {
				return fmt.Errorf("%s: %w", crd.GetName(), err)
			}
		}
		return nil
	})
}

// served returns an error if a served version of a CRD cannot be listed yet.
func (e *Env) served(ctx context.Context, crd unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		v := v.(map[string]any)
		// Older versions may require a conversion webhook, which does not run here.
		if v["served"] != true || v["storage"] != true {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(fmt.Sprintf("%s/%s", group, v["name"]))
		list.SetKind(kind + "List")
		if err := e.Admin.List(ctx, list, client.Limit(1)); err != nil {
			return err
		}
	}
	return nil
}

// Namespace creates a namespace with labels and waits until pods can be created in it.
func (e *Env) Namespace(ctx context.Context, name string, labels map[string]string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if err := e.Admin.Create(ctx, ns); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, fmt.Errorf("namespace %s has no service account after %s", name, Patience))
	defer cancel()
	return await.Until(ctx, func(ctx context.Context) error {
		return e.Admin.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// Create creates the objects of a YAML text, with their status, as soon as their kinds are served. Existing
// objects stay unchanged.
func (e *Env) Create(ctx context.Context, text string) error {
	objects, err := neighbours.Parse([]byte(text))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := e.CreateObject(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}

// Apply creates the objects of a file of the checkout. It leaves out objects that run and configure a
// program, since programs are processes here.
func (e *Env) Apply(ctx context.Context, file string) error {
	return neighbours.Apply(ctx, e.Admin, filepath.Join(e.Root, file), func(o *unstructured.Unstructured) bool {
		return !slices.Contains([]string{"Deployment", "DaemonSet", "ConfigMap"}, o.GetKind())
	})
}

// CreateObject creates an object as soon as its kind is served.
func (e *Env) CreateObject(ctx context.Context, o *unstructured.Unstructured) error {
	status, hasStatus := o.Object["status"]
	made := o.DeepCopy()
	err := neighbours.Create(ctx, e.Admin, made)
	if err == nil && hasStatus && o.GetKind() != "CustomResourceDefinition" && o.GetKind() != "Node" {
		made.Object["status"] = status
		if err = e.Admin.Status().Update(ctx, made); err != nil {
			err = fmt.Errorf("writing the status of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return err
}

// Delete removes an object and waits until it is gone.
func (e *Env) Delete(ctx context.Context, o client.Object) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, fmt.Errorf("%s is there after %s", o.GetName(), Patience))
	defer cancel()
	err := await.Until(ctx, func(ctx context.Context) error {
		err := e.Admin.Delete(ctx, o, client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is still there"))
	})
	if u, is := o.(*unstructured.Unstructured); err != nil && is {
		_ = e.Admin.Get(context.WithoutCancel(ctx), client.ObjectKeyFromObject(o), u)
		err = fmt.Errorf("%w: %s with finalizers %q, status %v", err, u.GetKind(), u.GetFinalizers(), u.Object["status"])
	}
	if err != nil {
		return fmt.Errorf("deleting %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// Cleanup runs a function at the end of a test. The test fails if it takes too long.
func Cleanup(t testing.TB, do func(context.Context) error) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := do(ctx); err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
}

// Text returns the text of a file with words replaced: old, new, old, new.
func Text(t testing.TB, file string, words ...string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.NewReplacer(words...).Replace(string(text))
}

// YAMLBlocks returns the YAML blocks of a page.
func YAMLBlocks(t testing.TB, page string) (blocks []string) {
	t.Helper()
	for _, part := range strings.Split(Text(t, page), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}

// clients has one client for each Prometheus URL: each keeps a connection, and a Prometheus accepts only 512.
var clients sync.Map

// Query sends one query to a Prometheus.
func Query(ctx context.Context, url, promql string) (prom.Vector, error) {
	c, err := prom.New(prom.Config{URL: url})
	if err != nil {
		return nil, err
	}
	kept, _ := clients.LoadOrStore(url, c)
	return kept.(*prom.Client).Query(ctx, promql, time.Time{})
}

// FreeAddress returns a loopback address that is reserved for one program.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:" + strconv.Itoa(FreePort(t))
}

// FreePort returns a port that is reserved for one program.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := proc.ReservePort()
	require.NoError(t, err)
	return port
}
