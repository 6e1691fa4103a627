package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"
)

// period is the HPA controller's period.
const period = 15 * time.Second

// hpas sends the requests of many HPAs: each once a period at its own phase,
// independently of the others, first its Pods metric and then its External one.
type hpas struct {
	fleet    fleet
	custom   custom_metrics.CustomMetricsClient
	external external_metrics.ExternalMetricsClient

	counting atomic.Bool // whether answers are counted yet
	mu       sync.Mutex
	counted  answers
}

// answers are the HPAs' results.
type answers struct {
	pods, external []time.Duration
	late           []time.Duration // of the generator itself, behind its schedule
	errors         map[string]int
	missed         int // periods that passed while an HPA still waited
}

// newHPAs connects to an adapter as the API server's aggregator does: with its
// certificate, over one HTTP/2 connection, with the user in headers.
func newHPAs(f fleet, address string, certs certificates) (*hpas, error) {
	config := &rest.Config{
		Host: address, QPS: -1, Timeout: period,
		TLSClientConfig: rest.TLSClientConfig{CAData: certs.authority, CertData: certs.proxy.cert, KeyData: certs.proxy.key},
		WrapTransport:   func(next http.RoundTripper) http.RoundTripper { return behalf{next} },
	}
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, apimeta.RESTScopeNamespace)
	custom, err := custom_metrics.NewForVersionForConfig(config, mapper, v1beta2.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("making the custom metrics client: %w", err)
	}
	external, err := external_metrics.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the external metrics client: %w", err)
	}
	return &hpas{fleet: f, custom: custom, external: external, counted: answers{errors: map[string]int{}}}, nil
}

// behalf sets the HPA controller as the user.
type behalf struct{ next http.RoundTripper }

func (b behalf) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Remote-User", "system:serviceaccount:kube-system:horizontal-pod-autoscaler")
	r.Header["X-Remote-Group"] = []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}
	return b.next.RoundTrip(r)
}

// run sends requests until ctx ends; answers within warm are not counted.
func (h *hpas) run(ctx context.Context, count int, warm time.Duration) answers {
	begin := time.Now()
	timer := time.AfterFunc(warm, func() { h.counting.Store(true) })
	defer timer.Stop()
	var running sync.WaitGroup
	for n := range count {
		phase := time.Duration(rand.Int64N(int64(period)))
		running.Go(func() { h.one(ctx, h.fleet.ask(n), begin.Add(phase)) })
	}
	running.Wait()
	return h.counted
}

// one runs a single HPA.
func (h *hpas) one(ctx context.Context, a ask, next time.Time) {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		late := time.Since(next)
		pods, podsErr := timed(func() error { return h.askPods(a) })
		if ctx.Err() != nil {
			return // the end of the run may have interrupted it
		}
		external, externalErr := timed(func() error { return h.askExternal(a) })
		missed := 0
		for next = next.Add(period); time.Until(next) < 0; next = next.Add(period) {
			missed++
		}
		if h.counting.Load() && ctx.Err() == nil {
			h.count(late, pods, podsErr, external, externalErr, missed)
		}
		timer.Reset(time.Until(next))
	}
}

func timed(f func() error) (time.Duration, error) {
	begin := time.Now()
	err := f()
	return time.Since(begin), err
}

func (h *hpas) askPods(a ask) error {
	selector := labels.SelectorFromSet(labels.Set{"app": a.app})
	list, err := h.custom.NamespacedMetrics(a.namespace).GetForObjects(schema.GroupKind{Kind: "Pod"}, selector, a.pods, labels.Everything())
	if err != nil {
		return err
	}
	if len(list.Items) != podsPerWorkload {
		return fmt.Errorf("pods answer with %d items, not %d", len(list.Items), podsPerWorkload)
	}
	return nil
}

func (h *hpas) askExternal(a ask) error {
	selector := labels.SelectorFromSet(labels.Set{"model_name": a.model})
	list, err := h.external.NamespacedMetrics(a.namespace).List(a.external, selector)
	if err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("external answer with %d items, not 1", len(list.Items))
	}
	return nil
}

func (h *hpas) count(late, pods time.Duration, podsErr error, external time.Duration, externalErr error, missed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &h.counted
	c.late, c.pods, c.external = append(c.late, late), append(c.pods, pods), append(c.external, external)
	c.missed += missed
	for _, err := range []error{podsErr, externalErr} {
		if err != nil {
			c.errors[brief(err)]++
		}
	}
}

// brief removes the names from an error, so that errors can be counted.
func brief(err error) string {
	text := err.Error()
	for _, particular := range []string{"team-", "model-", "https://"} {
		if i := strings.Index(text, particular); i >= 0 {
			text = text[:i] + "…"
		}
	}
	return text[:min(len(text), 120)]
}

// quantile of durations, 0 where there are none.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}
