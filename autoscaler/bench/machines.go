package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of Cluster API's contract, as its book has them.
const (
	deleteMachine   = "cluster.x-k8s.io/delete-machine"
	labelDeployment = "cluster.x-k8s.io/deployment-name"
	labelSet        = "cluster.x-k8s.io/set-name"
)

var capi = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}

// machines is a double of Cluster API's controllers and of a cloud behind them: it keeps a Machine and a KWOK node for each replica of a
// MachineDeployment. Where there are too many, those go that carry the delete-machine
// annotation, then the newest. Each write of replicas that it sees is a call.
type machines struct {
	client  client.Client
	node    func(name, pool string) *corev1.Node // that a machine boots into
	bootsIn time.Duration
	wake    chan struct{}

	mu    sync.Mutex
	pools map[string]*deployment
	calls []call
}

// deployment is a MachineDeployment as the double knows it.
type deployment struct {
	want       int64
	generation int64
	names      []string // of its Machines, oldest first
	made       int      // ever
	told       int64    // generation whose status was written
}

// call is one resize that the provider was asked for.
type call struct {
	at       time.Time
	pool     string
	from, to int64
}

func newMachines(c client.Client, node func(name, pool string) *corev1.Node, bootsIn time.Duration) *machines {
	return &machines{client: c, node: node, bootsIn: bootsIn, wake: make(chan struct{}, 1), pools: map[string]*deployment{}}
}

// run plays until ctx ends; an error it could not go on from is returned.
func (m *machines) run(ctx context.Context, d dynamic.Interface) error {
	informer := dynamicinformer.NewFilteredDynamicInformer(d, capi.WithResource("machinedeployments"), "", 0, cache.Indexers{}, nil).Informer()
	saw := func(o any) {
		if u, ok := o.(*unstructured.Unstructured); ok {
			m.saw(u, time.Now())
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: saw, UpdateFunc: func(_, o any) { saw(o) }}); err != nil {
		return fmt.Errorf("watching MachineDeployments: %w", err)
	}
	go informer.RunWithContext(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wake:
		}
		for _, pool := range m.names() {
			if err := m.turn(ctx, pool); err != nil && ctx.Err() == nil {
				return fmt.Errorf("playing MachineDeployment %s: %w", pool, err)
			}
		}
	}
}

func (m *machines) saw(u *unstructured.Unstructured, now time.Time) {
	want, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.pools[u.GetName()]
	if d == nil {
		d = &deployment{}
		m.pools[u.GetName()] = d
	}
	if want != d.want {
		m.calls = append(m.calls, call{now, u.GetName(), d.want, want})
	}
	d.want, d.generation = want, u.GetGeneration()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *machines) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for name := range m.pools {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// since returns the calls after a moment.
func (m *machines) since(t time.Time) []call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.calls), func(c call) bool { return !c.at.After(t) })
}

// size is how many machines the pools have that grow for bursts.
func (m *machines) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for name, d := range m.pools {
		if strings.HasPrefix(name, growPrefix) {
			n += len(d.names)
		}
	}
	return n
}

// turn makes and removes what one MachineDeployment wants.
func (m *machines) turn(ctx context.Context, pool string) error {
	m.mu.Lock()
	d := m.pools[pool]
	want, generation, told, have := int(d.want), d.generation, d.told, len(d.names)
	first := d.made
	if want > have {
		d.made += want - have
	}
	m.mu.Unlock()
	if want == have && told == generation {
		return nil
	}
	var add []string
	for i := have; i < want; i++ {
		first++
		add = append(add, fmt.Sprintf("%s-%05d", pool, first))
	}
	if err := each(ctx, len(add), func(i int) error { return m.boot(ctx, pool, add[i]) }); err != nil {
		return err
	}
	var gone []string
	if want < have {
		var err error
		if gone, err = m.victims(ctx, pool, have-want); err != nil {
			return err
		}
		if err := each(ctx, len(gone), func(i int) error { return m.remove(ctx, gone[i]) }); err != nil {
			return err
		}
	}
	m.mu.Lock()
	d.names = slices.DeleteFunc(append(d.names, add...), func(n string) bool { return slices.Contains(gone, n) })
	d.told = generation
	m.mu.Unlock()
	return m.status(ctx, pool, want, generation)
}

func (m *machines) boot(ctx context.Context, pool, name string) error {
	id := "double:///" + name
	u := machine(name)
	u.SetLabels(map[string]string{labelDeployment: pool, labelSet: pool + "-0"})
	u.Object["spec"] = map[string]any{"providerID": id}
	u.Object["status"] = map[string]any{"nodeRef": map[string]any{"name": name}}
	node := m.node(name, pool)
	node.Spec.ProviderID = id
	if err := m.client.Create(ctx, u); err != nil {
		return err
	}
	if m.bootsIn == 0 {
		return m.client.Create(ctx, node)
	}
	time.AfterFunc(m.bootsIn, func() {
		if ctx.Err() != nil || !m.has(pool, name) {
			return
		}
		if err := m.client.Create(ctx, node); err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "bench: node %s cannot be made, its pods will wait: %v\n", name, err)
		}
	})
	return nil
}

// has reports whether the machine has not been taken away.
func (m *machines) has(pool, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.pools[pool].names, name)
}

// victims are the Machines that go.
func (m *machines) victims(ctx context.Context, pool string, n int) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(capi.WithKind("MachineList"))
	if err := m.client.List(ctx, list, client.InNamespace(system), client.MatchingLabels{labelDeployment: pool}); err != nil {
		return nil, err
	}
	marked := func(u *unstructured.Unstructured) bool { _, ok := u.GetAnnotations()[deleteMachine]; return ok }
	var first, others []string
	for i := range list.Items {
		if u := &list.Items[i]; marked(u) {
			first = append(first, u.GetName())
		} else {
			others = append(others, u.GetName())
		}
	}
	slices.Sort(others)
	slices.Reverse(others)
	all := append(first, others...)
	return all[:min(n, len(all))], nil
}

func (m *machines) remove(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return errors.Join(client.IgnoreNotFound(m.client.Delete(ctx, node)), client.IgnoreNotFound(m.client.Delete(ctx, machine(name))))
}

func (m *machines) status(ctx context.Context, pool string, replicas int, generation int64) error {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(capi.WithKind("MachineDeployment"))
	u.SetNamespace(system)
	u.SetName(pool)
	text := fmt.Sprintf(`{"status":{"replicas":%d,"observedGeneration":%d}}`, replicas, generation)
	return m.client.Status().Patch(ctx, u, client.RawPatch("application/merge-patch+json", []byte(text)))
}

func machine(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(capi.WithKind("Machine"))
	u.SetNamespace(system)
	u.SetName(name)
	return u
}

// workers is how many requests of ours are under way at a time.
const workers = 16

// each does n things, several at a time, and returns the first error.
func each(ctx context.Context, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}
