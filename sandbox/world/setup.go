package world

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/story"
)

// systemNamespace is the namespace of our programs.
const systemNamespace = "gpuscale-system"

// createNamespaces of the story and of the programs.
func createNamespaces(ctx context.Context, c client.Client, s story.Story) error {
	names := []string{systemNamespace, partition.DefaultConfigMap.Namespace}
	for _, w := range s.Workloads {
		names = append(names, w.Namespace)
	}
	for _, name := range names {
		if err := create(ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	return nil
}

// createFleet creates the pools, then the nodes. They are registered but have no devices yet, as in a cluster
// that has been in use for some time.
func createFleet(ctx context.Context, c client.Client, groups *nodegroups.Maker, s story.Story) error {
	pools := map[string]story.Pool{}
	for _, p := range s.Pools {
		pools[p.Name] = p
		if err := create(ctx, c, poolObject(p)); err != nil {
			return err
		}
	}
	for _, n := range s.Nodes {
		p := pools[n.Pool]
		if len(n.Layout) > 0 {
			p.Layout = n.Layout
		}
		if err := groups.Add(ctx, poolObject(p), n.Name); err != nil {
			return err
		}
	}
	return nil
}

// createWorkloads makes the Deployments.
func createWorkloads(ctx context.Context, c client.Client, s story.Story) error {
	for _, w := range s.Workloads {
		if err := create(ctx, c, deployment(w)); err != nil {
			return err
		}
	}
	return nil
}

// createObjects creates the story's objects once the adapter answers.
func createObjects(ctx context.Context, c client.Client, s story.Story) error {
	for _, o := range s.Objects {
		u := &unstructured.Unstructured{}
		text, err := json.Marshal(o)
		if err == nil {
			err = u.UnmarshalJSON(text)
		}
		if err == nil {
			err = create(ctx, c, u)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// create creates an object as soon as its kind is served, unless it exists.
func create(ctx context.Context, c client.Client, o client.Object) error {
	return client.IgnoreAlreadyExists(neighbours.Create(ctx, c, o))
}
