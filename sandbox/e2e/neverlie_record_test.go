package e2e

import (
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuscale/gpuscale/internal/require"
)

// record has everything that the HPA controller has done, change by change.
type record struct {
	mu   sync.Mutex
	hpas map[string]hpaState // by namespace
	size map[string]*span    // by namespace/name of the workload
	gone map[string]loss     // how an HPA first lost its metric, by namespace
}

type loss struct {
	at  time.Time
	how string // empty if it did not
}

// hpaState is the condition ScalingActive, and for an Object metric the average that the HPA used.
type hpaState struct {
	active          bool
	reason, message string
	average         int64
}

// span is the range of a Deployment's replicas.
type span struct{ now, least, most int32 }

// finding is the effect of a fault on one HPA.
type finding struct {
	adapter     adapter
	fault       string
	cell        cell
	hpa         hpaState // at the end of the fault
	least, most int32    // replicas
	recovered   bool
}

func newRecord(t *testing.T, client kubernetes.Interface) *record {
	t.Helper()
	r := &record{hpas: map[string]hpaState{}, size: map[string]*span{}, gone: map[string]loss{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	for _, informer := range []cache.SharedIndexInformer{
		factory.Apps().V1().Deployments().Informer(), factory.Apps().V1().StatefulSets().Informer(), factory.Autoscaling().V2().HorizontalPodAutoscalers().Informer(),
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: r.changed, UpdateFunc: func(_, o any) { r.changed(o) }})
		require.NoError(t, err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() {
		close(stop)
		factory.Shutdown()
	})
	factory.WaitForCacheSync(stop)
	return r
}

func (r *record) changed(o any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch o := o.(type) {
	case *appsv1.Deployment:
		r.sized(o.Namespace+"/"+o.Name, *o.Spec.Replicas)
	case *appsv1.StatefulSet:
		r.sized(o.Namespace+"/"+o.Name, *o.Spec.Replicas)
	case *autoscalingv2.HorizontalPodAutoscaler:
		for _, c := range o.Status.Conditions {
			if c.Type == autoscalingv2.ScalingActive {
				r.hpas[o.Namespace] = hpaState{active: c.Status == corev1.ConditionTrue, reason: c.Reason, message: c.Message, average: goneBy(o.Status.CurrentMetrics)}
				if c.Status != corev1.ConditionTrue && r.gone[o.Namespace].how == "" {
					r.gone[o.Namespace] = loss{time.Now(), c.Reason + " " + c.Message}
				}
			}
		}
	}
}

func goneBy(metrics []autoscalingv2.MetricStatus) int64 {
	if len(metrics) == 0 || metrics[0].Object == nil || metrics[0].Object.Current.AverageValue == nil {
		return 0
	}
	return metrics[0].Object.Current.AverageValue.Value()
}

// sized records the replicas of a workload. The caller holds mu.
func (r *record) sized(key string, replicas int32) {
	s := r.size[key]
	if s == nil {
		s = &span{least: replicas, most: replicas}
		r.size[key] = s
	}
	s.now = replicas
	s.least, s.most = min(s.least, s.now), max(s.most, s.now)
}

// lost returns how the HPA of a namespace first lost its metric since reset.
func (r *record) lost(namespace string) loss {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone[namespace]
}

// reset starts new ranges.
func (r *record) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.gone)
	for _, s := range r.size {
		s.least, s.most = s.now, s.now
	}
}

func (r *record) hpa(namespace string) hpaState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hpas[namespace]
}

func (r *record) replicas(deployment string) int32 { return r.span(deployment).now }

func (r *record) span(deployment string) span {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.size[deployment]; s != nil {
		return *s
	}
	return span{}
}

func (r *record) finding(a adapter, fault string, c cell) finding {
	s := r.span(c.namespace(a) + "/" + workload)
	return finding{adapter: a, fault: fault, cell: c, hpa: r.hpa(c.namespace(a)), least: s.least, most: s.most}
}
