package e2e

import (
	"errors"
	"fmt"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/promfault"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// The guide's workload that scales to zero: model servers, and an endpoint picker. The picker always runs,
// and queues requests while there is no server.
const (
	zeroNamespace = "llm"
	zeroServers   = "llama"
	zeroPicker    = "llama-epp"
	// zeroRule is the guide's activation threshold.
	zeroRule = "{name: queue_depth, like: queue_depth, activation: 2}"
)

// llm returns the metrics of the pods in that namespace. Servers take all requests at once; without a server
// the picker queues them. The picker's queue series begins with the first request and then stays.
func (b *faultEnv) llm(servers []string, picker string) []promfault.Sample {
	requests := float64(b.requests.Load())
	of := func(metric, pod string, value float64, labels ...string) promfault.Sample {
		s := promfault.Sample{Name: metric, Labels: map[string]string{"namespace": zeroNamespace, "pod": pod}, Value: value}
		for i := 0; i+1 < len(labels); i += 2 {
			s.Labels[labels[i]] = labels[i+1]
		}
		return s
	}
	var out []promfault.Sample
	for _, pod := range servers {
		share := requests / float64(len(servers))
		out = append(out,
			of(metric.VLLMRunning.Name, pod, share, metric.LabelModelName, zeroServers, "engine", "0"),
			of(metric.VLLMWaiting.Name, pod, 0, metric.LabelModelName, zeroServers, "engine", "0"))
	}
	if picker == "" {
		return out
	}
	out = append(out, of(metric.EPPReady.Name, picker, float64(len(servers)), "name", zeroServers))
	waiting := requests
	if len(servers) > 0 {
		waiting = 0
	}
	if waiting > 0 {
		b.queued.Store(true)
	}
	if b.queued.Load() {
		out = append(out, of(metric.EPPQueue.Name, picker, waiting, metric.LabelInferencePool, zeroServers))
	}
	return out
}

// zero tests the guide's HPA with minReplicas 0. It scales to zero when there is nothing to do, and back when
// there is. A fault causes neither.
func (b *faultEnv) zero(t *testing.T) {
	h := zeroHPA(t)
	require.NoError(t, yaml.Unmarshal([]byte(atOnce), &h.Spec.Behavior)) // with the guide's own behavior this would take half an hour
	b.requests.Store(12)
	b.deploy(t, zeroNamespace, zeroServers, 2)
	b.deploy(t, zeroNamespace, zeroPicker, 1)
	_, err := b.client.AutoscalingV2().HorizontalPodAutoscalers(zeroNamespace).Create(t.Context(), h, metav1.CreateOptions{})
	require.NoError(t, err)
	b.becomes(t, "12 requests, 6 each", 2)
	b.deaf(t, 2)
	b.requests.Store(0)
	b.becomes(t, "nothing to do", 0)
	b.stays(t, "nothing to do", 0)
	b.deaf(t, 0)
	b.requests.Store(2)
	b.stays(t, "2 requests, and 2 do not wake it", 0)
	b.requests.Store(18)
	b.becomes(t, "18 requests, 6 each", 3)
}

// becomes waits until the controller has scaled to n.
func (b *faultEnv) becomes(t *testing.T, why string, n int32) {
	t.Helper()
	await.For(t, testenv.Patience, fmt.Sprintf("%s: %d replicas", why, n), func() error {
		h, got := b.seen.hpa(zeroNamespace), b.seen.replicas(zeroNamespace+"/"+zeroServers)
		if got != n {
			return fmt.Errorf("%d replicas, active %v: %s %s", got, h.active, h.reason, h.message)
		}
		return nil
	})
}

// stays waits for several syncs in which the number of replicas must not change.
func (b *faultEnv) stays(t *testing.T, why string, n int32) {
	t.Helper()
	b.seen.reset()
	before := b.router.counts()[zeroNamespace]
	await.For(t, testenv.Patience, why+": the controller looks again", func() error {
		if got := b.router.counts()[zeroNamespace] - before; got < 5 {
			return fmt.Errorf("%d times", got)
		}
		return nil
	})
	if s := b.seen.span(zeroNamespace + "/" + zeroServers); s.least != n || s.most != n {
		t.Errorf("%s: between %d and %d replicas, want %d", why, s.least, s.most, n)
	}
}

// deaf plays the faults; n replicas must stay.
func (b *faultEnv) deaf(t *testing.T, n int32) {
	t.Helper()
	for _, f := range []step{
		{answer: promfault.Down}, {answer: promfault.Empty}, {samples: promfault.NaN}, {samples: promfault.Infinite},
		{samples: promfault.Huge}, {samples: promfault.Gone}, {samples: promfault.Doubled},
	} {
		what := fmt.Sprintf("%d replicas, %s%s", n, f.answer, f.samples)
		b.inject(t, f)
		// Not checked by the HPA's condition: at zero replicas requests_running is known to be 0, and one known metric
		// is enough for the condition.
		if f.samples != promfault.Doubled {
			await.For(t, testenv.Patience, what+" is noticed", func() error {
				if b.asked(t) == nil {
					return errors.New("queue_depth has a value")
				}
				return nil
			})
		}
		b.stays(t, what, n)
		b.honest(t)
		await.For(t, testenv.Patience, what+" is over", func() error { return b.asked(t) })
	}
}

// asked returns the error for queue_depth, which has no value.
func (b *faultEnv) asked(t *testing.T) error {
	_, err := b.client.CoreV1().RESTClient().Get().AbsPath(externalV1 + zeroNamespace + "/queue_depth").DoRaw(t.Context())
	return err
}

// zeroHPA is the HPA of docs/hpa.md, as readers would paste it.
func zeroHPA(t *testing.T) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	for _, manifest := range testenv.YAMLBlocks(t, "../../docs/hpa.md") {
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		if yaml.UnmarshalStrict([]byte(manifest), h) == nil && h.Namespace == zeroNamespace && h.Name == zeroServers {
			return h
		}
	}
	t.Fatalf("docs/hpa.md has no HPA %s/%s", zeroNamespace, zeroServers)
	return nil
}
