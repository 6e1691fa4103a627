package act

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
)

// leased is an API server with a lease; it counts writes.
type leased struct {
	t      *testing.T
	client client.WithWatch
	key    client.ObjectKey
	writes int
	unread bool // the lease cannot be read
}

func newLeased(t *testing.T, holder string) *leased {
	t.Helper()
	l := &leased{t: t, key: client.ObjectKey{Namespace: "s", Name: "lease"}}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.key.Namespace, Name: l.key.Name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseTransitions: ptr.To[int32](4),
			RenewTime: ptr.To(metav1.NewMicroTime(start)), LeaseDurationSeconds: ptr.To[int32](15),
		},
	}
	l.client = fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(lease).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if key == l.key && l.unread {
					return errors.New("no answer")
				}
				return c.Get(ctx, key, o, opts...)
			},
		}).Build()
	return l
}

// epoch returns this replica's epoch, begun.
func (l *leased) epoch(now func() time.Time) *Epoch {
	l.t.Helper()
	e := NewEpoch(EpochOptions{Holder: "us", Lease: l.key, Live: l.client, Now: now})
	if err := e.Begin(l.t.Context(), 0); err != nil {
		l.t.Fatal(err)
	}
	return e
}

// change updates the lease, as another replica would.
func (l *leased) change(do func(*coordinationv1.LeaseSpec)) {
	l.t.Helper()
	var lease coordinationv1.Lease
	if err := l.client.Get(l.t.Context(), l.key, &lease); err != nil {
		l.t.Fatal(err)
	}
	do(&lease.Spec)
	if err := l.client.Update(l.t.Context(), &lease); err != nil {
		l.t.Fatal(err)
	}
}

// countedPools is a provider that only counts writes.
type countedPools struct {
	pools.Provider
	wrote func() error
}

func (c countedPools) SetSize(context.Context, *v1alpha1.GPUNodePool, int) error { return c.wrote() }
func (c countedPools) Delete(context.Context, *v1alpha1.GPUNodePool, *corev1.Node) error {
	return c.wrote()
}

// every returns all kinds of requests, by name.
func (l *leased) every(e *Epoch) map[string]func(context.Context) error {
	l.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { l.writes++ }))
	l.t.Cleanup(server.Close)
	c, err := rest.HTTPClientFor(Fence(&rest.Config{}, e))
	if err != nil {
		l.t.Fatal(err)
	}
	p := pools.Providers{GRPC: countedPools{nil, func() error { l.writes++; return nil }}, May: e.May}
	out := map[string]func(context.Context) error{
		"set size":     func(ctx context.Context) error { return p.SetSize(ctx, testPool(), 3) },
		"delete nodes": func(ctx context.Context) error { return p.Delete(ctx, testPool(), testNode()) },
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		out[method] = func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, method, server.URL, strings.NewReader("{}"))
			if err != nil {
				return err
			}
			answer, err := c.Do(r)
			if err == nil {
				err = answer.Body.Close()
			}
			return err
		}
	}
	return out
}

func TestEveryWriteChecksLeadership(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(l *leased)
		now     time.Time
		deposed bool // refused with ErrDeposed, not with another error
		refused bool
	}{
		{name: "leading", change: func(*leased) {}},
		{name: "another holds the lease", deposed: true, refused: true, change: func(l *leased) {
			l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("another") })
		}},
		{name: "another has held the lease since", deposed: true, refused: true, change: func(l *leased) {
			l.change(func(s *coordinationv1.LeaseSpec) { s.LeaseTransitions = ptr.To[int32](6) })
		}},
		{name: "no holder", deposed: true, refused: true, change: func(l *leased) {
			l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("") })
		}},
		{name: "expired", deposed: true, refused: true, change: func(*leased) {}, now: start.Add(16 * time.Second)},
		{name: "about to expire", change: func(*leased) {}, now: start.Add(15 * time.Second)},
		{name: "the API server does not answer", refused: true, change: func(l *leased) { l.unread = true }},
		{name: "the lease is gone", refused: true, change: func(l *leased) {
			if err := l.client.Delete(l.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.key.Namespace, Name: l.key.Name}}); err != nil {
				l.t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLeased(t, "us")
			now := start
			e := l.epoch(func() time.Time { return now })
			test.change(l)
			if !test.now.IsZero() {
				now = test.now
			}
			for name, write := range l.every(e) {
				refused, before := test.refused && name != http.MethodGet, l.writes // reads pass
				err := write(t.Context())
				switch wrote := l.writes - before; {
				case !refused && (err != nil || wrote != 1):
					t.Errorf("%s: %v, %d writes, want one", name, err, wrote)
				case refused && (err == nil || wrote != 0):
					t.Errorf("%s: %v, %d writes, want none", name, err, wrote)
				case refused && errors.Is(err, ErrDeposed) != test.deposed:
					t.Errorf("%s: %v: deposed is %t", name, err, !test.deposed)
				case refused && test.deposed && outcome(err, false) != Refused:
					t.Errorf("%s: outcome %s of %v", name, outcome(err, false), err)
				}
			}
		})
	}
}

// TestAnEpochDoesNotComeBack: a deposed replica stays deposed although the lease has its
// name again: its snapshot is from before.
func TestAnEpochDoesNotComeBack(t *testing.T) {
	l := newLeased(t, "us")
	e := l.epoch(func() time.Time { return start })
	l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("another") })
	if err := e.Check(t.Context()); !errors.Is(err, ErrDeposed) {
		t.Fatal(err)
	}
	l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("us") })
	if err := e.Check(t.Context()); !errors.Is(err, ErrDeposed) {
		t.Errorf("leading again: %v", err)
	}
}

func TestTerms(t *testing.T) {
	l := newLeased(t, "us")
	for _, test := range []struct {
		name   string
		lease  client.ObjectKey
		latest int64
		want   int64
	}{
		{"the lease counts", l.key, 0, 4},
		{"the lease was deleted and recreated", l.key, 9, 10},
		{"no lease", client.ObjectKey{}, 2, 3},
	} {
		e := NewEpoch(EpochOptions{Holder: "us", Lease: test.lease, Live: l.client, Now: func() time.Time { return start }})
		if err := e.Begin(t.Context(), test.latest); err != nil {
			t.Fatal(err)
		}
		if got := e.Stamp().Term; got != test.want {
			t.Errorf("%s: term %d, want %d", test.name, got, test.want)
		}
		for last, follows := range map[v1alpha1.Epoch]bool{
			{Term: test.want - 1, Holder: "another"}: true,
			{Term: test.want, Holder: "us"}:          true,
		} {
			if err := e.Follows(&last); (err == nil) != follows {
				t.Errorf("%s: after %v: %v", test.name, last, err)
			}
		}
		if err := e.Follows(nil); err != nil {
			t.Errorf("%s: a pool without an epoch: %v", test.name, err)
		}
		if err := e.Follows(&v1alpha1.Epoch{Term: test.want, Holder: "another"}); !errors.Is(err, ErrDeposed) {
			t.Errorf("%s: two in one term: %v", test.name, err)
		}
	}
}
