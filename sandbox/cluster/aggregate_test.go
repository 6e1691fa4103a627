package cluster_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/internal/await"
)

// TestHPAOverAnAggregatedAPI: the real HPA controller reads an external
// metric from a server on the loopback through the API server, which shows
// itself with the front proxy's certificate, and scales a Deployment.
func TestHPAOverAnAggregatedAPI(t *testing.T) {
	c := start(t, nil)
	k, ctx := client(t, c), t.Context()
	external := schema.GroupVersion{Group: "external.metrics.k8s.io", Version: "v1beta1"}

	cert, key, _, err := c.ServingCert("adapter.gpuscale.svc")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	frontProxy := x509.NewCertPool()
	frontProxy.AppendCertsFromPEM(c.FrontProxyCA())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasPrefix(r.URL.Path, "/apis/external.metrics.k8s.io/v1beta1") {
			http.NotFound(w, r)
			return
		}
		if user := r.Header.Get("X-Remote-User"); strings.Contains(r.URL.Path, "/queue_depth") {
			if user != "system:serviceaccount:kube-system:horizontal-pod-autoscaler" {
				t.Errorf("asked by %q", user)
			}
			fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},
				"items":[{"metricName":"queue_depth","metricLabels":{},"timestamp":%q,"value":"30"}]}`, time.Now().UTC().Format(time.RFC3339))
			return
		}
		io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"external.metrics.k8s.io/v1beta1",
			"resources":[{"name":"queue_depth","namespaced":true,"kind":"ExternalMetricValueList","verbs":["get"]}]}`)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: frontProxy, ClientAuth: tls.RequireAndVerifyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port

	if err := c.RouteAPI(ctx, "gpuscale", "adapter", port, external); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := c.WaitAPI(soon, external); err != nil {
		t.Fatal(err)
	}
	t.Logf("API available after %s", time.Since(begin).Round(10*time.Millisecond))

	one, labels := int32(1), map[string]string{"app": "chat"}
	if _, err := k.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "chat"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podWanting("", "1", nil).Spec},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	target := resource.MustParse("10")
	if _, err := k.AutoscalingV2().HorizontalPodAutoscalers("default").Create(ctx, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "chat"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat"},
			MinReplicas:    &one, MaxReplicas: 10,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "queue_depth"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &target},
			}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.For(t, patience, "30 in the queue, 10 each: three replicas", func() error {
		d, err := k.AppsV1().Deployments("default").Get(ctx, "chat", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if *d.Spec.Replicas != 3 {
			h, _ := k.AutoscalingV2().HorizontalPodAutoscalers("default").Get(ctx, "chat", metav1.GetOptions{})
			return fmt.Errorf("%d replicas; HPA: %v", *d.Spec.Replicas, h.Status.Conditions)
		}
		return nil
	})
}
