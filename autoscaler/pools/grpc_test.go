package pools

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools/externalgrpc"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

// fakeGRPC is a provider of one node group, written after the protocol's description in cluster-autoscaler
// (cloudprovider/externalgrpc/protos at 1dbeacf, 2026-11-29): sizes change by differences, deleting named nodes lowers the size,
// lowering the target deletes none, and the size stays between minimum and maximum. An instance without a machine has
// no ID, and is deleted by its annotation alone (OCI's oci_node_pool.go, 55c37cd).
type fakeGRPC struct {
	mu        sync.Mutex
	min, max  int
	target    int
	instances []*externalgrpc.Instance
	template  *corev1.Node // nil: not implemented
	asField1  bool         // the template is in the older field
	restarted bool         // the provider has no groups before it has read its cloud
	stale     bool         // what it lists is from before the deletions
	calls     map[string]int
	failing   map[string]error
	patience  map[string]time.Duration // that calls have
}

func (f *fakeGRPC) serve(_ any, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	method, ok := strings.CutPrefix(full, "/"+externalgrpc.Service+"/")
	if !ok {
		return status.Error(codes.Unimplemented, full)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[method]++
	end, _ := stream.Context().Deadline()
	f.patience[method] = time.Until(end)
	if err := f.failing[method]; err != nil {
		return err
	}
	answer := func(in any, do func() (any, error)) error {
		if err := stream.RecvMsg(in); err != nil {
			return err
		}
		out, err := do()
		if err != nil {
			return err
		}
		return stream.SendMsg(out)
	}
	switch method {
	case "Refresh":
		return answer(&externalgrpc.Empty{}, func() (any, error) {
			f.restarted = false
			return &externalgrpc.Empty{}, nil
		})
	case "NodeGroups":
		return answer(&externalgrpc.Empty{}, func() (any, error) {
			if f.restarted {
				return &externalgrpc.Groups{}, nil
			}
			return &externalgrpc.Groups{Groups: []*externalgrpc.Group{
				{ID: "other"}, {ID: "gpu-pool", MinSize: int32(f.min), MaxSize: int32(f.max)},
			}}, nil
		})
	case "NodeGroupTargetSize":
		return answer(&externalgrpc.Of{}, func() (any, error) { return &externalgrpc.Target{Size: int32(f.target)}, nil })
	case "NodeGroupNodes":
		return answer(&externalgrpc.Of{}, func() (any, error) { return &externalgrpc.Instances{Instances: f.instances}, nil })
	case "NodeGroupIncreaseSize":
		in := &externalgrpc.Resize{}
		return answer(in, func() (any, error) {
			if in.ID != "gpu-pool" || in.Delta <= 0 || f.target+int(in.Delta) > f.max {
				return nil, status.Errorf(codes.InvalidArgument, "increase by %d", in.Delta)
			}
			f.target += int(in.Delta)
			return &externalgrpc.Empty{}, nil
		})
	case "NodeGroupDecreaseTargetSize":
		in := &externalgrpc.Resize{}
		return answer(in, func() (any, error) {
			there := 0
			for _, i := range f.instances {
				if !i.Is(externalgrpc.Deleting) {
					there++
				}
			}
			if in.Delta >= 0 || f.target+int(in.Delta) < there {
				return nil, status.Errorf(codes.InvalidArgument, "decrease by %d would delete existing nodes", in.Delta)
			}
			f.target += int(in.Delta)
			return &externalgrpc.Empty{}, nil
		})
	case "NodeGroupDeleteNodes":
		in := &externalgrpc.DeleteNodes{}
		return answer(in, func() (any, error) { return f.remove(in) })
	case "NodeGroupTemplateNodeInfo":
		return answer(&externalgrpc.Of{}, func() (any, error) {
			if f.template == nil {
				return nil, status.Error(codes.Unimplemented, "no template")
			}
			text, err := f.template.Marshal()
			if f.asField1 {
				return &externalgrpc.Template{Info: text}, err
			}
			return &externalgrpc.Template{Bytes: text}, err
		})
	}
	return status.Error(codes.Unimplemented, method)
}

func (f *fakeGRPC) remove(in *externalgrpc.DeleteNodes) (any, error) {
	for _, n := range in.Nodes {
		at := slices.IndexFunc(f.instances, func(i *externalgrpc.Instance) bool { return i.ID == n.ProviderID })
		if at < 0 || f.target <= f.min || n.ProviderID == "" && n.Annotations["k8s.io/cluster-autoscaler/fake-node-reason"] != "create-error" {
			return nil, status.Errorf(codes.FailedPrecondition, "node %q", n.ProviderID)
		}
		if !f.stale {
			f.instances[at].Status = &externalgrpc.Status{State: externalgrpc.Deleting}
		}
		f.target--
	}
	return &externalgrpc.Empty{}, nil
}

type grpcWorld struct {
	*world
	fake *fakeGRPC
	grpc *Groups
	now  time.Time
	// address of the fake
	address string
}

func newGRPCWorld(t *testing.T, server ...grpc.ServerOption) *grpcWorld {
	t.Helper()
	w := &grpcWorld{now: testNow, fake: &fakeGRPC{max: 10, target: 3, calls: map[string]int{}, failing: map[string]error{}, patience: map[string]time.Duration{}}}
	w.world = newScaleWorld(t, v1alpha1.ScaleProvider{}, members()...)
	for i := range 3 {
		w.fake.instances = append(w.fake.instances, &externalgrpc.Instance{
			ID: fmt.Sprintf("fake://w-%d", i), Status: &externalgrpc.Status{State: externalgrpc.Running},
		})
	}
	w.pool.Spec.Provider = v1alpha1.Provider{ExternalGRPC: &v1alpha1.ExternalGRPCProvider{Name: "cloud", NodeGroup: "gpu-pool"}}
	w.address = serveGRPC(t, w.fake, server...)
	w.connect(externalgrpc.Config{Address: w.address})
	return w
}

// serveGRPC returns the address of a server.
func serveGRPC(t *testing.T, f *fakeGRPC, options ...grpc.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(append(options, grpc.UnknownServiceHandler(f.serve))...)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func (w *grpcWorld) connect(c externalgrpc.Config) {
	w.t.Helper()
	cloud, err := externalgrpc.New(c)
	require.NoError(w.t, err)
	w.grpc = NewGRPC(w.client, map[string]*externalgrpc.Client{"cloud": cloud}, func() time.Time { return w.now })
}

func TestNodeGroupScales(t *testing.T) {
	w := newGRPCWorld(t)
	for range 2 {
		require.NoError(t, w.grpc.SetSize(t.Context(), w.pool, 0, 5))
	}
	require.NoError(t, w.grpc.SetSize(t.Context(), w.pool, 0, 4))
	if l, err := w.grpc.List(t.Context(), w.pool); err != nil || l.Target != 5 || l.Unnamed {
		t.Errorf("%+v, %v", l, err)
	}
	var problem *Problem
	if err := w.grpc.SetSize(t.Context(), w.pool, 0, 11); !errors.As(err, &problem) || problem.Field != "spec.max" {
		t.Errorf("above the group's maximum: %v", err)
	}
	for range 3 { // as every reconcile does until the node is gone
		require.NoError(t, w.grpc.Delete(t.Context(), w.pool, w.node("w-1"), false))
	}
	l, err := w.grpc.List(t.Context(), w.pool)
	if err != nil || l.Target != 4 || !slices.Equal(l.Going, []string{"w-1"}) || w.fake.calls["NodeGroupDeleteNodes"] != 1 {
		t.Errorf("%+v, %v, %d deletions", l, err, w.fake.calls["NodeGroupDeleteNodes"])
	}
	if n := w.fake.calls["Refresh"]; n != 1 {
		t.Errorf("refreshed %d times at one time", n)
	}
}

// TestProviderRestarts: like cluster-autoscaler's providers before their first Refresh, a provider that has not read
// its cloud since it started has no node groups. It is asked to read its cloud first; otherwise the pool would have a
// problem until the next time.
func TestProviderRestarts(t *testing.T) {
	w := newGRPCWorld(t)
	for range 2 {
		l, err := w.grpc.List(t.Context(), w.pool)
		if err != nil || l.Target != 3 {
			t.Errorf("%+v, %v", l, err)
		}
		w.fake.restarted = true
		w.grpc.memo.forget(w.pool)
	}
}

// TestNodeGroupIsGivenTime: a provider whose calls take as long as cluster-autoscaler allows can be listed.
func TestNodeGroupIsGivenTime(t *testing.T) {
	w := newGRPCWorld(t)
	for timeout, least := range map[time.Duration]time.Duration{0: 3 * time.Second, 10 * time.Second: 5 * time.Second} {
		w.connect(externalgrpc.Config{Address: w.address, Timeout: timeout})
		if _, err := w.grpc.List(t.Context(), w.pool); err != nil || w.fake.patience["Refresh"] <= least {
			t.Errorf("with a timeout of %s: Refresh may take %s, %v", timeout, w.fake.patience["Refresh"], err)
		}
	}
}

// TestDeletionsAreListedLate: cluster-autoscaler's provider for AWS lists a deleted instance as before until it reads
// AWS again, and lowers the size that it keeps with each deletion (auto_scaling_groups.go at 1.36.1). The instance is
// deleted once, and again if it is still there ten minutes later.
func TestDeletionsAreListedLate(t *testing.T) {
	for _, replace := range []bool{false, true} {
		w := newGRPCWorld(t)
		w.fake.stale = true
		if replace {
			w.fake.failing["NodeGroupIncreaseSize"] = status.Error(codes.ResourceExhausted, "stockout")
		}
		for range 3 {
			if err := w.grpc.Delete(t.Context(), w.pool, w.node("w-1"), replace); err != nil != replace {
				t.Errorf("replaced %v: %v", replace, err)
			}
			replace = false
		}
		l, err := w.grpc.List(t.Context(), w.pool)
		if err != nil || l.Target != 2 || !slices.Equal(l.Going, []string{"w-1"}) || w.fake.calls["NodeGroupDeleteNodes"] != 1 {
			t.Errorf("%+v, %v, %d deletions", l, err, w.fake.calls["NodeGroupDeleteNodes"])
		}
		w.now = w.now.Add(11 * time.Minute)
		require.NoError(t, w.grpc.Delete(t.Context(), w.pool, w.node("w-1"), false))
		if w.fake.calls["NodeGroupDeleteNodes"] != 2 {
			t.Errorf("%d deletions", w.fake.calls["NodeGroupDeleteNodes"])
		}
	}
}

// TestNodeGroupReplaces: the protocol's deletion lowers the size, which is then restored. A provider that has no other
// node is a failure.
func TestNodeGroupReplaces(t *testing.T) {
	w := newGRPCWorld(t)
	w.fake.target = 5 // two are upcoming
	require.NoError(t, w.grpc.Delete(t.Context(), w.pool, w.node("w-1"), true))
	if l, err := w.grpc.List(t.Context(), w.pool); err != nil || l.Target != 5 || !slices.Equal(l.Going, []string{"w-1"}) {
		t.Errorf("%+v, %v", l, err)
	}
	w.fake.min, w.fake.target = 2, 2 // another client has lowered it
	if p := (*Problem)(nil); !errors.As(w.grpc.Delete(t.Context(), w.pool, w.node("w-2"), true), &p) || p.Field != "spec.min" {
		t.Errorf("at the group's minimum, below which the deletion would go: %v", p)
	}
	w.fake.min, w.fake.target = 0, 5
	w.fake.failing["NodeGroupIncreaseSize"] = status.Error(codes.ResourceExhausted, "stockout")
	if err := w.grpc.Delete(t.Context(), w.pool, w.node("w-2"), true); err == nil || !strings.Contains(err.Error(), "requesting its replacement") || w.fake.target != 4 {
		t.Errorf("%v, the target is %d", err, w.fake.target)
	}
}

// TestNodeGroupDeletesOnlyItsNodes: another incarnation, a node without its instance, and a node below
// the group's minimum stay.
func TestNodeGroupDeletesOnlyItsNodes(t *testing.T) {
	for what, change := range map[string]func(*grpcWorld, *corev1.Node){
		"another UID":    func(_ *grpcWorld, n *corev1.Node) { n.UID = "older" },
		"no instance":    func(_ *grpcWorld, n *corev1.Node) { n.Spec.ProviderID = "" },
		"not its group":  func(w *grpcWorld, _ *corev1.Node) { w.fake.instances = w.fake.instances[:1] },
		"another pool":   func(_ *grpcWorld, n *corev1.Node) { n.Labels = nil },
		"at its minimum": func(w *grpcWorld, _ *corev1.Node) { w.fake.min = 3 },
	} {
		w := newGRPCWorld(t)
		n := w.node("w-1")
		change(w, n)
		if err := w.grpc.Delete(t.Context(), w.pool, n, false); err == nil || w.fake.calls["NodeGroupDeleteNodes"] != 0 {
			t.Errorf("%s: %v, %d deletions", what, err, w.fake.calls["NodeGroupDeleteNodes"])
		}
	}
}

// TestNodeGroupWithdraws: requested nodes that were not made are withdrawn, and failed instances are deleted by their
// IDs. Running ones stay, with or without a node.
func TestNodeGroupWithdraws(t *testing.T) {
	w := newGRPCWorld(t)
	w.fake.target = 6
	failed := &externalgrpc.Status{State: externalgrpc.Creating, Error: &externalgrpc.Error{Code: "STOCKOUT", Text: "no GPU in the zone", Class: 1}}
	w.fake.instances = append(w.fake.instances, &externalgrpc.Instance{Status: failed},
		&externalgrpc.Instance{ID: "fake://late", Status: &externalgrpc.Status{State: externalgrpc.Creating}})
	if l, err := w.grpc.List(t.Context(), w.pool); err != nil || l.Failed != 1 || l.FailedWhy != "STOCKOUT: no GPU in the zone" {
		t.Errorf("%+v, %v", l, err)
	}
	for range 2 {
		require.NoError(t, w.grpc.Withdraw(t.Context(), w.pool, w.fake.target))
	}
	l, err := w.grpc.List(t.Context(), w.pool)
	if err != nil || l.Failed != 0 || l.Target != 4 || !slices.Equal(l.Going, []string{""}) {
		t.Errorf("%+v, %v", l, err)
	}
	w.fake.instances[len(w.fake.instances)-2].Status = failed // it is still listed, and the target does not count it
	w.grpc.memo.forget(w.pool)
	if l, err := w.grpc.List(t.Context(), w.pool); err != nil || l.Failed != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestNodeNeverJoins: an instance without a node is deleted half an hour after it was first seen, except at the
// group's minimum. None is deleted where the provider's IDs are not those of nodes.
func TestNodeNeverJoins(t *testing.T) {
	for _, c := range []struct {
		least, size int
		other       string // prefix of the provider's IDs
	}{{0, 3, ""}, {4, 4, ""}, {0, 4, "other-"}} {
		w := newGRPCWorld(t)
		w.fake.min, w.fake.target = c.least, 4
		w.fake.instances = append(w.fake.instances, &externalgrpc.Instance{ID: "fake://dead", Status: &externalgrpc.Status{State: externalgrpc.Running}})
		for _, i := range w.fake.instances {
			i.ID = c.other + i.ID
		}
		_, err := w.grpc.List(t.Context(), w.pool)
		require.NoError(t, err)
		w.now = w.now.Add(40 * time.Minute)
		for range 2 {
			err := w.grpc.Withdraw(t.Context(), w.pool, w.fake.target)
			if (err == nil) != (c.other == "") || err != nil && !strings.Contains(err.Error(), "which no machine of") {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if gone := w.fake.instances[3].Is(externalgrpc.Deleting); w.fake.target != c.size || gone != (c.size == 3) {
			t.Errorf("%+v: size %d, the instance is gone: %v", c, w.fake.target, gone)
		}
	}
}

// TestNodeGroupTemplate: labels, taints and other resources of the provider's template complete the pool's own. Its
// hostname (AWS', Azure's and GCE's templates have one, 55c37cd) and the state of the node that it was made from are
// left out. A provider may state that it has no template; one that fails is a failure.
func TestNodeGroupTemplate(t *testing.T) {
	for _, older := range []bool{false, true} {
		w := newGRPCWorld(t)
		w.fake.asField1 = older
		w.fake.template = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"topology.kubernetes.io/zone": "a", "team": "theirs", corev1.LabelHostname: "template"}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule},
				{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
				{Key: "status-taint.cluster-autoscaler.kubernetes.io/repair", Effect: corev1.TaintEffectNoSchedule}}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"rdma/hca": resource.MustParse("8"), "hugepages-2Mi": resource.MustParse("1Gi"), "hugepages-1Gi": resource.MustParse("0"),
				"attachable-volumes-disks": resource.MustParse("9"), "cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("2")}},
		}
		w.pool.Spec.Template.Labels = map[string]string{"team": "ours"}
		l, err := w.grpc.List(t.Context(), w.pool)
		require.NoError(t, err)
		got, err := Template(w.pool, nil, l)
		if err != nil || got.Labels["topology.kubernetes.io/zone"] != "a" || got.Labels["team"] != "ours" || got.Labels[corev1.LabelHostname] != "" || len(got.Taints) != 1 ||
			fmt.Sprint(got.Others) != "[{hugepages-2Mi 1073741824} {rdma/hca 8}]" {
			t.Errorf("older %v: %+v, %v", older, got, err)
		}
	}
	w := newGRPCWorld(t)
	if _, err := w.grpc.List(t.Context(), w.pool); err != nil {
		t.Errorf("without a template: %v", err)
	}
	w.fake.failing["NodeGroupTemplateNodeInfo"] = status.Error(codes.Internal, "broken")
	w.now = w.now.Add(time.Minute)
	if _, err := w.grpc.List(t.Context(), w.pool); err == nil {
		t.Error("a template that fails is none")
	}
}

// TestNodeGroupProblems: each problem has a reason and a field; problems of a connection are reported before it is
// used.
func TestNodeGroupProblems(t *testing.T) {
	for field, change := range map[string]func(*v1alpha1.ExternalGRPCProvider){
		"spec.provider.externalGRPC.name":      func(p *v1alpha1.ExternalGRPCProvider) { p.Name = "another" },
		"spec.provider.externalGRPC.nodeGroup": func(p *v1alpha1.ExternalGRPCProvider) { p.NodeGroup = "none" },
	} {
		w := newGRPCWorld(t)
		change(w.pool.Spec.Provider.ExternalGRPC)
		_, err := w.grpc.List(t.Context(), w.pool)
		var problem *Problem
		if !errors.As(err, &problem) || problem.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	w := newGRPCWorld(t)
	w.fake.failing["NodeGroupIncreaseSize"] = status.Error(codes.ResourceExhausted, "stockout")
	if err := w.grpc.SetSize(t.Context(), w.pool, 0, 5); err == nil || !strings.Contains(err.Error(), "stockout") {
		t.Errorf("%v", err)
	}
	// Nodes cannot be added to a negative size.
	w.fake.target = -1
	_, listed := w.grpc.List(t.Context(), w.pool)
	for what, err := range map[string]error{"List": listed, "SetSize": w.grpc.SetSize(t.Context(), w.pool, 0, 5)} {
		if err == nil || !strings.Contains(err.Error(), "the size of node group gpu-pool is -1") || w.fake.target != -1 {
			t.Errorf("%s: %v, size %d", what, err, w.fake.target)
		}
	}
	for _, c := range []externalgrpc.Config{
		{}, {Address: "host"}, {Address: "host:"}, {Address: "host:1", Key: "k"}, {Address: "host:1", CACert: "c"},
		{Address: "host:1", Key: "k", Cert: "c", CACert: filepath.Join(t.TempDir(), "none")},
	} {
		if _, err := externalgrpc.New(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestNodeGroupOverMutualTLS: both sides show a certificate of one authority, which is renewed before they connect; a client
// without one is refused.
func TestNodeGroupOverMutualTLS(t *testing.T) {
	dir, authority := t.TempDir(), promtest.NewAuthority(t, "test")
	file := func(name string, pem []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem, 0o600))
		return path
	}
	cert, key := authority.Issue(t, "client")
	w := newGRPCWorld(t)
	address := serveGRPC(t, w.fake, grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*authority.Pair(t, "server")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(),
	})))
	w.connect(externalgrpc.Config{Address: address, Cert: file("client.crt", cert), Key: file("client.key", key), CACert: file("ca.crt", promtest.NewAuthority(t, "test").PEM)})
	file("ca.crt", authority.PEM)
	if l, err := w.grpc.List(t.Context(), w.pool); err != nil || l.Target != 3 {
		t.Errorf("%+v, %v", l, err)
	}
	w.connect(externalgrpc.Config{Address: address})
	if _, err := w.grpc.List(t.Context(), w.pool); err == nil {
		t.Error("answered without a certificate")
	}
}

// TestHistory runs testdata/history.txt: what is learned of a pool from requests and nodes. A case is one pool, from
// 9:00 on, and its lines are done in order.
//
//	asks N [fails]       a request for N nodes, which the provider takes or refuses
//	after DURATION       time passes
//	comes DURATION       a node is made now, and ready after that time
//	again                the first node is ready again, an hour from now
//	old                  a node of an hour ago becomes ready
//	warmed DURATION      a node that was made that long ago leaves a warm pool, and is ready a minute later
//	recreated            another pool has the name, with another UID
//	status N IN DURATION the status of a new pool has N failures, a backoff that ends IN, and this time to ready
//	withdrawn            the planner takes the request back
//	seen N               what is known, where the provider's target is N
func TestHistory(t *testing.T) {
	datadriven.RunTest(t, "testdata/history.txt", func(t *testing.T, d *datadriven.TestData) string {
		pool, now, nodes := testPool(), testNow, []*corev1.Node(nil)
		h := NewHistory(func() time.Time { return now })
		h.Seen(pool, 0, nil)
		node := func(made time.Time) *corev1.Node {
			name := fmt.Sprintf("n-%d", len(nodes))
			nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(made)}})
			h.Seen(pool, len(nodes), nodes)
			return nodes[len(nodes)-1]
		}
		ready := func(n *corev1.Node, at time.Time) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
			h.Seen(pool, len(nodes), nodes)
		}
		out := ""
		for line := range strings.Lines(d.Input) {
			words := append(strings.Fields(line), "", "")
			count, _ := strconv.Atoi(words[1])
			took, _ := time.ParseDuration(words[1])
			switch words[0] {
			case "asks":
				h.Asked(pool, map[string]error{"fails": errors.New("no capacity")}[words[2]])
			case "after":
				now = now.Add(took)
			case "comes":
				n := node(now)
				now = now.Add(took)
				ready(n, now)
			case "again":
				ready(nodes[0], now.Add(time.Hour))
			case "old":
				ready(node(now.Add(-time.Hour)), now)
			case "warmed":
				n := node(now.Add(-took))
				now = now.Add(time.Minute)
				ready(n, now)
			case "recreated":
				pool.UID = "another"
			case "status":
				until, _ := time.ParseDuration(words[2])
				after, _ := time.ParseDuration(words[3])
				pool = testPool()
				pool.Name = "new"
				pool.Status.Backoff = &v1alpha1.Backoff{Failures: int32(count), UntilTime: metav1.NewTime(now.Add(until))}
				pool.Status.ReadyAfter = &metav1.Duration{Duration: after}
			case "withdrawn":
				h.Withdrawn(pool)
			case "seen":
				l := h.Seen(pool, count, nodes)
				backoff := max(0, l.BackoffUntil.Sub(now))
				out += fmt.Sprintf("%d failures, backs off for %s, ready after %s\n", l.Failures, backoff, l.ReadyAfter)
			default:
				t.Fatalf("%s: there is no %s", d.Pos, words[0])
			}
		}
		return out
	})
}

func TestWriteConflictsAreNoFailures(t *testing.T) {
	w := newScaleWorld(t, deploymentRef, capiObjects()...)
	p := Providers{Scale: w.scale, History: NewHistory(time.Now)}
	require.NoError(t, p.Delete(t.Context(), w.pool, w.node("w-1"), false))
	if err := p.SetSize(t.Context(), w.pool, 0, 3); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if got := p.Learn(w.pool, 2, nil); got.Failures != 0 {
		t.Errorf("%+v", got)
	}
	w.pool.Spec.Provider.Scale.Name = "none"
	if err := p.SetSize(t.Context(), w.pool, 0, 3); err == nil {
		t.Fatal("no error")
	}
	if got := p.Learn(w.pool, 2, nil); got.Failures != 1 {
		t.Errorf("%+v", got)
	}
}

// TestFailuresAreRetriedLessOften: a failing provider's answer is kept for a time that doubles, up
// to a minute; a Problem, and a change of the pool, are read at the normal interval; one success
// resets it.
func TestFailuresAreRetriedLessOften(t *testing.T) {
	now, asked := testNow, 0
	var fails error = errors.New("Throttling")
	m := newMemo(10*time.Second, func() time.Time { return now })
	pool := testPool()
	get := func() error {
		_, err := m.get(t.Context(), pool, func() (Listing, error) { asked++; return Listing{Target: 3}, fails })
		return err
	}
	over := func(d time.Duration) int {
		before := asked
		for end := now.Add(d); now.Before(end); now = now.Add(time.Second) {
			if err := get(); !errors.Is(err, fails) {
				t.Fatalf("%v, want %v", err, fails)
			}
		}
		return asked - before
	}
	if n := over(62 * time.Second); n != 5 { // after 2, 4, 8, 16 and 32 seconds
		t.Errorf("asked %d times in a minute of failures", n)
	}
	if n := over(10 * time.Minute); n != 10 {
		t.Errorf("asked %d times in ten minutes more", n)
	}
	pool.Generation++
	if n := over(time.Second); n != 1 {
		t.Errorf("a pool that was changed was asked for %d times", n)
	}
	fails = &Problem{Reason: ReasonTarget}
	m.forget(pool)
	if n := over(time.Minute); n != 6 {
		t.Errorf("what may have been mended was looked at %d times in a minute", n)
	}
	fails = nil
	now = now.Add(time.Minute)
	require.NoError(t, get())
	fails = errors.New("Throttling")
	now = now.Add(time.Minute)
	_, _ = over(time.Second), now
	if n := over(2 * time.Second); n != 1 {
		t.Errorf("the first failure after a good answer is asked again after two seconds, not %d times", n)
	}
	// A call that this process cancels shows nothing about the provider.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pool.Name = "other"
	_, _ = m.get(ctx, pool, func() (Listing, error) { return Listing{}, context.Canceled })
	if _, kept := m.answers["other"]; kept {
		t.Error("our own end is kept as a failure")
	}
}
