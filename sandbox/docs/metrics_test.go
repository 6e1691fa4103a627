package docs

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// recording is what the exporter plays: a card of the node that the pages call gpu-1.
const recording = "exporter/testdata/complete.txt"

// serveMetrics starts what Prometheus scrapes: the exporter over a recording, our other
// programs, and a double of model servers. It ends when their series are there, and the
// lease names a pod of the autoscaler.
func (b *bed) serveMetrics(ctx context.Context) error {
	if err := b.holdLease(ctx); err != nil {
		return err
	}
	if _, err := b.cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-exporter", Path: filepath.Join(b.bin, "gpuscale-exporter"), Dir: b.root, Log: b.cluster.LogFile("gpuscale-exporter"),
		Args: []string{"--replay=" + recording, "--node=gpu-1", "--address=127.0.0.1:" + strconv.Itoa(b.exporter)},
	}); err != nil {
		return err
	}
	servers, err := b.modelServers(ctx)
	if err != nil {
		return err
	}
	type target struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	targets, err := json.Marshal([]target{
		{[]string{"127.0.0.1:" + strconv.Itoa(b.exporter)}, map[string]string{"job": "gpuscale-exporter", "namespace": system, "pod": "gpuscale-exporter-x"}},
		{[]string{"127.0.0.1:" + strconv.Itoa(b.autoscaler)}, map[string]string{"job": "gpuscale-autoscaler", "namespace": system}},
		{[]string{servers}, map[string]string{"job": "vllm"}},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.cluster.PrometheusDir(), "targets.json"), targets, 0o600); err != nil {
		return err
	}
	for _, query := range []string{"gpu_info", "gpuscale_autoscaler_gpu_seconds_total", "vllm:num_requests_waiting"} {
		if err := until(ctx, query+" is in Prometheus", func() error { return b.has(ctx, query) }); err != nil {
			return err
		}
	}
	// And the adapter has asked for them: a page's first command may be about one.
	clients, err := kubernetes.NewForConfig(b.cluster.RESTConfig())
	if err != nil {
		return err
	}
	return until(ctx, "the adapter answers", func() error {
		return clients.CoreV1().RESTClient().Get().AbsPath("/apis/custom.metrics.k8s.io/v1beta2/namespaces/chat/pods/*/queue_depth").Do(ctx).Error()
	})
}

func (b *bed) has(ctx context.Context, query string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.cluster.PrometheusURL()+"/api/v1/query?query="+query, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct{ Data struct{ Result []any } }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	if len(answer.Data.Result) == 0 {
		return fmt.Errorf("no series")
	}
	return nil
}

// modelServers is a double of vLLM: one page with the series of each pod in chat, which
// says itself whose they are.
func (b *bed) modelServers(ctx context.Context) (string, error) {
	var pods corev1.PodList
	if err := b.admin.List(ctx, &pods, client.InNamespace("chat"), client.MatchingLabels{"app.kubernetes.io/name": "vllm"}); err != nil {
		return "", err
	}
	var page strings.Builder
	for _, p := range pods.Items {
		for name, value := range map[string]string{"num_requests_waiting": "3", "num_requests_running": "5", "kv_cache_usage_perc": "0.5"} {
			fmt.Fprintf(&page, "vllm:%s{namespace=%q,pod=%q,model_name=\"m\",engine=\"0\"} %s\n", name, p.Namespace, p.Name, value)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { // as long as the tests
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page.String()) }))
	}()
	return l.Addr().String(), nil
}

// holdLease says that one of the autoscaler's pods leads.
func (b *bed) holdLease(ctx context.Context) error {
	var pods corev1.PodList
	if err := b.admin.List(ctx, &pods, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/name": "gpuscale-autoscaler"}); err != nil {
		return err
	}
	if len(pods.Items) == 0 {
		return fmt.Errorf("the autoscaler has no pod")
	}
	holder := pods.Items[0].Name + "_" + string(pods.Items[0].UID)
	return b.admin.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "gpuscale-autoscaler"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	})
}
