package forward

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/transport"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

const (
	group   = "external.metrics.k8s.io"
	version = "v1beta1"
	// Hop marks a forwarded request. Two servers that forward to each other
	// would otherwise loop until the caller's timeout.
	Hop = "X-Gpuscale-Forwarded"

	maxAnswer   = 1 << 20 // bytes; an external metric is a few hundred
	maxInFlight = 64
)

// Forwarder forwards requests. Its methods are safe for concurrent use; a nil
// Forwarder forwards nothing.
type Forwarder struct {
	server   *url.URL
	caller   bool
	timeout  time.Duration
	client   http.RoundTripper
	known    func(metric string) bool
	slots    chan struct{}
	answered *prometheus.CounterVec
	log      *slog.Logger

	names  atomic.Pointer[[]string]
	shared sync.Once
	down   atomic.Bool // the last request failed
}

// New returns a forwarder for names that known does not report; nil if a valid configuration
// names no server.
func New(c Config, known func(metric string) bool, reg prometheus.Registerer, log *slog.Logger) (*Forwarder, error) {
	t := c.External
	if t == nil {
		return nil, nil
	}
	server, err := t.base()
	if err != nil {
		return nil, err
	}
	client, err := t.transport()
	if err != nil {
		return nil, fmt.Errorf("forwarding to %s: %w", server.Host, err)
	}
	d := metric.AdapterForwarded
	f := &Forwarder{
		server: server, caller: t.Identity == Caller, timeout: cmp.Or(t.Timeout.Duration, defaultTimeout), client: client, known: known,
		slots: make(chan struct{}, maxInFlight), log: log,
		answered: prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels),
	}
	f.names.Store(new([]string))
	if err := reg.Register(f.answered); err != nil {
		return nil, fmt.Errorf("registering forward metrics: %w", err)
	}
	return f, nil
}

func (t Target) transport() (http.RoundTripper, error) {
	c := &transport.Config{
		UserAgent: "gpuscale-adapter",
		TLS: transport.TLSConfig{
			CAFile: t.CAFile, ReloadCAFiles: t.CAFile != "", ServerName: t.ServerName,
			CertFile: t.CertFile, KeyFile: t.KeyFile, ReloadTLSFiles: t.CertFile != "",
		},
	}
	if t.CertFile == "" {
		c.BearerTokenFile = cmp.Or(t.TokenFile, ownToken)
	}
	return transport.New(c)
}

// Wrap serves the requests to forward and leaves the others to next. It belongs
// behind authentication and authorization.
func (f *Forwarder) Wrap(next http.Handler) http.Handler {
	if f == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !asksForOne(info) || f.known(info.Resource) {
			next.ServeHTTP(w, r)
			return
		}
		if r.Header.Get(Hop) != "" {
			f.refuse(w, http.StatusLoopDetected, "no signal is called %s, and the request has already been forwarded: do two adapters forward to each other?", info.Resource)
			return
		}
		f.pass(w, r, info)
	})
}

// asksForOne: GET /apis/external.metrics.k8s.io/v1beta1/namespaces/NS/METRIC.
func asksForOne(i *request.RequestInfo) bool {
	return i.IsResourceRequest && i.APIGroup == group && i.APIVersion == version && i.Verb == "list" &&
		i.Namespace != "" && i.Resource != "" && i.Subresource == "" && len(i.Parts) == 1 &&
		len(content.IsPathSegmentName(i.Namespace)) == 0 && len(content.IsPathSegmentName(i.Resource)) == 0
}

func (f *Forwarder) pass(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	default:
		f.refuse(w, http.StatusServiceUnavailable, "%d requests are waiting for %s, which serves metric %s", maxInFlight, f.server.Host, info.Resource)
		return
	}
	target := f.server.JoinPath("apis", group, version, "namespaces", url.PathEscape(info.Namespace), url.PathEscape(info.Resource))
	if selector := r.URL.Query().Get("labelSelector"); selector != "" {
		target.RawQuery = url.Values{"labelSelector": {selector}}.Encode()
	}
	a, err := f.ask(r.Context(), target, func(out *http.Request) error { return f.setIdentity(out, r) })
	if err != nil {
		f.refuse(w, http.StatusServiceUnavailable, "no signal is called %s, and %s, which may know it, did not answer: %v", info.Resource, f.server.Host, err)
		return
	}
	if a.contentType != "" {
		w.Header().Set("Content-Type", a.contentType)
	}
	f.count(a.code)
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body) // the caller has disconnected
}

// setIdentity sets the headers that describe the caller.
func (f *Forwarder) setIdentity(out, in *http.Request) error {
	if accept := in.Header.Get("Accept"); accept != "" {
		out.Header.Set("Accept", accept)
	}
	if !f.caller {
		return nil
	}
	u, ok := request.UserFrom(in.Context())
	if !ok {
		return errors.New("the caller is unknown")
	}
	transport.SetAuthProxyHeaders(out, u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra())
	return nil
}

type reply struct {
	code        int
	contentType string
	body        []byte
}

// ask returns the other server's answer, API errors included. Its own error is
// one of the transport.
func (f *Forwarder) ask(ctx context.Context, target *url.URL, prepare func(*http.Request) error) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	out, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return reply{}, err
	}
	out.Header.Set(Hop, "1")
	if err := prepare(out); err != nil {
		return reply{}, err
	}
	a, err := f.exchange(out)
	if ctx.Err() == context.Canceled {
		return a, err // the caller disconnected: not a failure of the server
	}
	f.logChange(err)
	return a, err
}

func (f *Forwarder) exchange(out *http.Request) (reply, error) {
	resp, err := f.client.RoundTrip(out)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return reply{}, fmt.Errorf("reading its answer: %w", err)
	case len(body) > maxAnswer:
		return reply{}, fmt.Errorf("its answer is longer than %d bytes", maxAnswer)
	case resp.StatusCode == http.StatusUnauthorized:
		return reply{}, errors.New("it rejects the adapter's credentials (HTTP 401): see forward.external.tokenFile and certFile")
	case resp.StatusCode == http.StatusForbidden && !f.caller:
		return reply{}, errors.New("it denies the adapter access (HTTP 403): grant its service account get and list on external.metrics.k8s.io")
	case resp.StatusCode < 200 || resp.StatusCode >= 300 && resp.StatusCode < 400:
		return reply{}, fmt.Errorf("unexpected HTTP %d", resp.StatusCode)
	}
	return reply{resp.StatusCode, resp.Header.Get("Content-Type"), body}, nil
}

// logChange logs changes only.
func (f *Forwarder) logChange(err error) {
	switch before := f.down.Swap(err != nil); {
	case err != nil && !before:
		f.log.Warn("metrics cannot be forwarded", slog.String("server", f.server.Host), slog.Any("error", err))
	case err == nil && before:
		f.log.Info("metrics are forwarded again", slog.String("server", f.server.Host))
	}
}

func (f *Forwarder) count(code int) { f.answered.WithLabelValues(strconv.Itoa(code)).Inc() }

// refuse answers with an API error.
func (f *Forwarder) refuse(w http.ResponseWriter, code int, format string, args ...any) {
	f.count(code)
	reason := metav1.StatusReasonServiceUnavailable
	if code == http.StatusLoopDetected {
		reason = metav1.StatusReasonNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{ // the caller has disconnected
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}
