package gather

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/doctor"
)

// Options of Facts.
type Options struct {
	Kube *rest.Config
	// Prometheus is nil where there is none; NoPrometheus is why.
	Prometheus   *prom.Client
	NoPrometheus string
	// Match is put into every selector.
	Match string
	// Namespace to look for gpuscale in.
	Namespace string
	// Kubectl has the flags that commands need.
	Kubectl []string
	// Sources to read.
	Sources []doctor.Source
}

// atOnce is how many lists are read concurrently.
const atOnce = 4

// look is one gathering.
type look struct {
	kube    *kube
	options Options
	facts   *doctor.Facts
	mu      sync.Mutex // over Missing, Absent and Answers
}

// Facts reads the sources. The error is for an API server that does not answer or does
// not authenticate the caller; anything less is in Facts.Missing.
func Facts(ctx context.Context, o Options) (*doctor.Facts, error) {
	k, err := newKube(o.Kube)
	if err != nil {
		return nil, err
	}
	l := &look{kube: k, options: o, facts: &doctor.Facts{
		Namespace: o.Namespace, Kubectl: o.Kubectl,
		Missing: map[doctor.Source]string{}, Absent: map[doctor.Source]bool{}, Answers: map[doctor.Source]prom.Vector{},
	}}
	if _, err := k.get(ctx, "/version", nil); err != nil && code(err) != http.StatusForbidden {
		if code(err) == http.StatusUnauthorized {
			return nil, fmt.Errorf("the API server does not authenticate the caller: %w", err)
		}
		return nil, err
	}
	l.first(ctx)
	l.second(ctx)
	f := l.facts
	f.Now, f.Local, f.Calls = k.now, k.local, k.calls
	f.Took = time.Since(k.local)
	return f, nil
}

// first reads what depends on no other facts, Prometheus concurrently with Kubernetes.
func (l *look) first(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { l.ask(ctx) })
	work := make(chan doctor.Described)
	for range atOnce {
		wg.Go(func() {
			for d := range work {
				l.read(ctx, d)
			}
		})
	}
	sinks := l.sinks()
	for _, d := range doctor.Table {
		if _, ok := sinks[d.Source]; ok && l.wanted(d.Source) {
			work <- d
		}
	}
	close(work)
	wg.Wait()
}

func (l *look) wanted(s doctor.Source) bool { return slices.Contains(l.options.Sources, s) }

// sinks are the destinations of lists.
func (l *look) sinks() map[doctor.Source]sink {
	f := l.facts
	return map[doctor.Source]sink{
		doctor.Deployments: into(&f.Deployments, nil),
		doctor.DaemonSets:  into(&f.DaemonSets, nil),
		doctor.APIServices: into(&f.APIServices, nil),
		doctor.Nodes: into(&f.Nodes, func(n *corev1.Node) bool {
			doctor.Trim(n)
			return true
		}),
		doctor.Pods:                into(&f.Pods, doctor.KeepPod),
		doctor.Pools:               into(&f.Pools, nil),
		doctor.GPUQuotas:           into(&f.GPUQuotas, nil),
		doctor.HPAs:                into(&f.HPAs, nil),
		doctor.ScaledObjects:       into(&f.ScaledObjects, nil),
		doctor.ResourceQuotas:      into(&f.ResourceQuotas, nil),
		doctor.NodeLeases:          into(&f.NodeLeases, nil),
		doctor.ClusterRoleBindings: into(&f.ClusterRoleBindings, nil),
		doctor.ClusterRoles:        into(&f.ClusterRoles, nil),
		doctor.Budgets:             into(&f.Budgets, nil),
		doctor.ValidatingWebhooks:  into(&f.ValidatingWebhooks, nil),
		doctor.MutatingWebhooks:    into(&f.MutatingWebhooks, nil),
		doctor.RoleBindings:        into(&f.RoleBindings, nil),
		doctor.ResourceSlices:      into(&f.ResourceSlices, nil),
		doctor.CustomMetrics:       metrics(&f.CustomMetrics),
		doctor.ExternalMetrics:     metrics(&f.ExternalMetrics),
		doctor.Monitoring:          metrics(&f.Monitoring),
	}
}

// read reads one list, by the first of its paths that exists.
func (l *look) read(ctx context.Context, d doctor.Described) {
	take := l.sinks()[d.Source]
	var err error
	for _, path := range d.Paths {
		if err = l.kube.list(ctx, path, nil, take); code(err) != http.StatusNotFound {
			break
		}
	}
	if err == nil {
		return
	}
	if code(err) == http.StatusNotFound && d.Optional {
		l.mu.Lock()
		l.facts.Absent[d.Source] = true
		l.mu.Unlock()
		return
	}
	l.missing(d, err)
}

// missing records why a source was not read.
func (l *look) missing(d doctor.Described, err error) {
	why := fmt.Sprintf("%s: %v", d.Source, err)
	if c := code(err); c == http.StatusForbidden {
		why = "you lack the right to " + d.Right
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.facts.Missing[d.Source] = doctor.Clean(why, 300)
}
