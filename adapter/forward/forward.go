package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/metrics/pkg/apis/external_metrics"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

const (
	// Hop marks a forwarded request. Two servers that forward to each other
	// would otherwise loop until the caller's timeout.
	Hop = "X-Gpuscale-Forwarded"

	maxAnswer = 1 << 20 // bytes; an external metric is a few hundred

	// others is the one name listed for all of the other server's metrics. KEDA's own server
	// lists no more (2.21, pkg/provider), and an HPA needs no list.
	others = "externalmetrics"
)

// Forwarder is a provider that asks another server for the external metrics it does not
// know. Its methods are safe for concurrent use.
type Forwarder struct {
	cma.MetricsProvider
	known    func(metric string) (bool, error)
	server   string
	caller   bool
	timeout  time.Duration
	client   rest.Interface
	answered *prometheus.CounterVec
	log      *slog.Logger
	down     atomic.Bool // the last request failed
}

// New returns a forwarder for names that own does not have; known reports those that it has, and
// returns why it cannot say so yet. The target must be valid.
func New(t Target, own cma.MetricsProvider, known func(metric string) (bool, error), reg prometheus.Registerer, log *slog.Logger) (*Forwarder, error) {
	server, err := t.base()
	if err != nil {
		return nil, err
	}
	d := metric.AdapterForwarded
	f := &Forwarder{
		MetricsProvider: own, known: known, server: server.Host, caller: t.Identity == Caller,
		timeout: cmp.Or(t.Timeout, defaultTimeout), log: log,
		answered: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels),
	}
	if f.client, err = client(t.config(server.String())); err != nil {
		return nil, fmt.Errorf("forwarding to %s: %w", f.server, err)
	}
	return f, nil
}

// config is how the target is asked. Its files are read again when they change.
func (t Target) config(server string) *rest.Config {
	c := &rest.Config{
		Host: server, APIPath: "/apis", UserAgent: "gpuscale-adapter", QPS: -1, // the callers' own limits hold
		TLSClientConfig: rest.TLSClientConfig{CAFile: t.CAFile, ServerName: t.ServerName, CertFile: t.CertFile, KeyFile: t.KeyFile},
		ContentConfig:   rest.ContentConfig{GroupVersion: &v1beta1.SchemeGroupVersion, NegotiatedSerializer: scheme.Codecs.WithoutConversion()},
		WrapTransport:   func(trip http.RoundTripper) http.RoundTripper { return hop{trip, t.Identity == Caller} },
	}
	if t.CertFile == "" {
		c.BearerTokenFile = cmp.Or(t.TokenFile, ownToken)
	}
	return c
}

// client follows no redirect.
func client(c *rest.Config) (rest.Interface, error) {
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return rest.RESTClientForConfigAndClient(c, h)
}

// hop marks the requests, names their caller, and bounds the answers.
type hop struct {
	http.RoundTripper
	caller bool
}

// RoundTrip implements http.RoundTripper.
func (h hop) RoundTrip(r *http.Request) (*http.Response, error) {
	r = utilnet.CloneRequest(r)
	r.Header.Set(Hop, "1")
	if u, asked := request.UserFrom(r.Context()); h.caller && asked {
		transport.SetAuthProxyHeaders(r, u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra())
	}
	resp, err := h.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}

type forwardedKey struct{}

// Mark lets the forwarder see which requests have been forwarded already.
func Mark(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(Hop) != "" {
			r = r.WithContext(context.WithValue(r.Context(), forwardedKey{}, true))
		}
		next.ServeHTTP(w, r)
	})
}

// GetExternalMetric answers with the provider's own value, or with the other server's
// answer, its refusals included.
func (f *Forwarder) GetExternalMetric(ctx context.Context, namespace string, selector labels.Selector, info cma.ExternalMetricInfo) (*external_metrics.ExternalMetricValueList, error) {
	known, unsure := f.known(info.Metric)
	if known {
		return f.MetricsProvider.GetExternalMetric(ctx, namespace, selector, info)
	}
	list, err := f.forward(ctx, namespace, selector, info.Metric)
	if err != nil && unsure != nil {
		err = provider.Unavailable("%s may be the adapter's own: %v; %s: %v", info.Metric, unsure, f.server, err)
	}
	f.answered.WithLabelValues(strconv.Itoa(provider.Code(err))).Inc()
	return list, err
}

func (f *Forwarder) forward(ctx context.Context, namespace string, selector labels.Selector, name string) (*external_metrics.ExternalMetricValueList, error) {
	if ctx.Value(forwardedKey{}) != nil {
		return nil, provider.Status(http.StatusLoopDetected, metav1.StatusReasonNotFound,
			"no signal is called %s, and the request has already been forwarded: do two adapters forward to each other?", name)
	}
	out := f.client.Get().Namespace(namespace).Resource(name)
	if !selector.Empty() {
		out = out.Param("labelSelector", selector.String())
	}
	list, own := &v1beta1.ExternalMetricValueList{}, &external_metrics.ExternalMetricValueList{}
	err := f.ask(ctx, out, list)
	if err == nil {
		err = v1beta1.Convert_v1beta1_ExternalMetricValueList_To_external_metrics_ExternalMetricValueList(list, own, nil)
	}
	switch {
	case provider.CodeOf(err) >= http.StatusBadRequest:
		return nil, err
	case err != nil:
		return nil, provider.Unavailable("no signal is called %s, and %s, which may know it, did not answer: %v", name, f.server, err)
	}
	return own, nil
}

// ask reads the other server's answer. If the other server refuses the request, the error is
// the API's. If it does not answer, or refuses the adapter itself, the error is another one.
func (f *Forwarder) ask(ctx context.Context, out *rest.Request, into runtime.Object) error {
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	err := out.MaxRetries(0).Do(limited).Into(into)
	switch code := provider.CodeOf(err); {
	case errors.As(err, new(*http.MaxBytesError)):
		err = fmt.Errorf("its answer is longer than %d bytes", maxAnswer)
	case code == http.StatusUnauthorized:
		err = errors.New("it rejects the adapter's credentials (HTTP 401): see forward.external.tokenFile and certFile")
	case code == http.StatusForbidden && !f.caller:
		err = errors.New("it denies the adapter access (HTTP 403): grant its service account get and list on external.metrics.k8s.io")
	case code >= http.StatusBadRequest:
		f.logChange(nil)
		return err
	case code != 0:
		err = fmt.Errorf("unexpected HTTP %d", code)
	}
	if ctx.Err() != context.Canceled { // else the caller disconnected: not a failure of the server
		f.logChange(err)
	}
	return err
}

// logChange logs changes only.
func (f *Forwarder) logChange(err error) {
	switch before := f.down.Swap(err != nil); {
	case err != nil && !before:
		f.log.Warn("metrics cannot be forwarded", slog.String("server", f.server), slog.Any("error", err))
	case err == nil && before:
		f.log.Info("metrics are forwarded again", slog.String("server", f.server))
	}
}

// ListAllExternalMetrics also lists that there are others.
func (f *Forwarder) ListAllExternalMetrics() []cma.ExternalMetricInfo {
	return append(f.MetricsProvider.ListAllExternalMetrics(), cma.ExternalMetricInfo{Metric: others})
}
