package act

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
)

// leased is an API server with a lease, and how many writes it took.
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
	l.client = fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(lease, testPool(), testNode(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}).
		WithStatusSubresource(&v1alpha1.GPUNodePool{}).
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

// change the lease as its next holder would.
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

// counted is a client and a provider that only count.
type counted struct {
	client.Client
	writes *int
}

func (c counted) Create(context.Context, client.Object, ...client.CreateOption) error {
	*c.writes++
	return nil
}
func (c counted) Update(context.Context, client.Object, ...client.UpdateOption) error {
	*c.writes++
	return nil
}
func (c counted) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	*c.writes++
	return nil
}
func (c counted) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	*c.writes++
	return nil
}
func (c counted) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	*c.writes++
	return nil
}
func (c counted) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	*c.writes++
	return nil
}
func (c counted) SubResource(string) client.SubResourceClient { return countedSub{nil, c.writes} }

type countedSub struct {
	client.SubResourceClient
	writes *int
}

func (c countedSub) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	*c.writes++
	return nil
}
func (c countedSub) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	*c.writes++
	return nil
}
func (c countedSub) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	*c.writes++
	return nil
}
func (c countedSub) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	*c.writes++
	return nil
}

type countedPools struct {
	pools.Provider
	writes *int
}

func (c countedPools) SetSize(context.Context, *v1alpha1.GPUNodePool, int) error {
	*c.writes++
	return nil
}
func (c countedPools) Delete(context.Context, *v1alpha1.GPUNodePool, []*corev1.Node) error {
	*c.writes++
	return nil
}

// every way there is to write something.
func (l *leased) every(e *Epoch) map[string]func(context.Context) error {
	c, p := Fence(counted{l.client, &l.writes}, e), FencePools(countedPools{nil, &l.writes}, e)
	node, pod, pool := testNode(), &corev1.Pod{}, testPool()
	merge := client.MergeFrom(&corev1.Node{})
	return map[string]func(context.Context) error{
		"create":        func(ctx context.Context) error { return c.Create(ctx, node) },
		"update":        func(ctx context.Context) error { return c.Update(ctx, node) },
		"patch":         func(ctx context.Context) error { return c.Patch(ctx, node, merge) },
		"delete":        func(ctx context.Context) error { return c.Delete(ctx, node) },
		"delete all of": func(ctx context.Context) error { return c.DeleteAllOf(ctx, node) },
		"apply":         func(ctx context.Context) error { return c.Apply(ctx, nil) },
		"status patch":  func(ctx context.Context) error { return c.Status().Patch(ctx, pool, merge) },
		"status update": func(ctx context.Context) error { return c.Status().Update(ctx, pool) },
		"eviction": func(ctx context.Context) error {
			return c.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
		},
		"scale apply":  func(ctx context.Context) error { return c.SubResource("scale").Apply(ctx, nil) },
		"set size":     func(ctx context.Context) error { return p.SetSize(ctx, pool, 3) },
		"delete nodes": func(ctx context.Context) error { return p.Delete(ctx, pool, nil) },
	}
}

func TestEveryWriteAsksWhoLeads(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(l *leased)
		now     time.Time
		deposed bool // else an error that is none of ErrDeposed, where refused
		refused bool
	}{
		{name: "it leads", change: func(*leased) {}},
		{name: "another holds the lease", deposed: true, refused: true, change: func(l *leased) {
			l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("another") })
		}},
		{name: "another has held the lease since", deposed: true, refused: true, change: func(l *leased) {
			l.change(func(s *coordinationv1.LeaseSpec) { s.LeaseTransitions = ptr.To[int32](6) })
		}},
		{name: "nobody holds it", deposed: true, refused: true, change: func(l *leased) {
			l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("") })
		}},
		{name: "it has run out", deposed: true, refused: true, change: func(*leased) {}, now: start.Add(16 * time.Second)},
		{name: "it is nearly out", change: func(*leased) {}, now: start.Add(15 * time.Second)},
		{name: "nobody can tell", refused: true, change: func(l *leased) { l.unread = true }},
		{name: "the lease is gone", refused: true, change: func(l *leased) {
			if err := l.client.Delete(l.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.key.Namespace, Name: l.key.Name}}); err != nil {
				l.t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLeased(t, "us")
			now := start
			e := NewEpoch(EpochOptions{Holder: "us", Lease: l.key, Live: l.client, Now: func() time.Time { return now }})
			if err := e.Begin(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			test.change(l)
			if !test.now.IsZero() {
				now = test.now
			}
			for name, write := range l.every(e) {
				before := l.writes
				err := write(t.Context())
				switch wrote := l.writes - before; {
				case !test.refused && (err != nil || wrote != 1):
					t.Errorf("%s: %v, %d writes, want one", name, err, wrote)
				case test.refused && (err == nil || wrote != 0):
					t.Errorf("%s: %v, %d writes, want none", name, err, wrote)
				case test.refused && errors.Is(err, ErrDeposed) != test.deposed:
					t.Errorf("%s: %v: deposed is %t", name, err, !test.deposed)
				case test.deposed && outcome(err, false) != Refused:
					t.Errorf("%s: outcome %s of %v", name, outcome(err, false), err)
				}
			}
		})
	}
}

// TestAnEpochDoesNotComeBack: who was deposed stays so, though the lease says its
// name again: what it knows is old.
func TestAnEpochDoesNotComeBack(t *testing.T) {
	l := newLeased(t, "us")
	e := NewEpoch(EpochOptions{Holder: "us", Lease: l.key, Live: l.client, Now: func() time.Time { return start }})
	if err := e.Begin(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("another") })
	if err := e.Check(t.Context()); !errors.Is(err, ErrDeposed) {
		t.Fatal(err)
	}
	l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("us") })
	if err := e.Check(t.Context()); !errors.Is(err, ErrDeposed) {
		t.Errorf("it leads again: %v", err)
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
		{"the lease was deleted and counts anew", l.key, 9, 10},
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
			t.Errorf("%s: a pool that nobody has led: %v", test.name, err)
		}
		if err := e.Follows(&v1alpha1.Epoch{Term: test.want, Holder: "another"}); !errors.Is(err, ErrDeposed) {
			t.Errorf("%s: two in one term: %v", test.name, err)
		}
	}
}
