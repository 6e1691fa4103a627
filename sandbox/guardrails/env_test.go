package guardrails

import (
	"context"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// autoscalerUser is the autoscaler's user in these tests. The audit log and admission policies can tell it
// from the test's own user.
const autoscalerUser = "guardrails-autoscaler"

// env is the control plane that all tests share.
type env struct {
	*testenv.Env
	ours   client.Client // client of the autoscaler
	worlds atomic.Int32  // number of worlds so far
}

var shared = testenv.NewShared(newEnv)

func TestMain(m *testing.M) { shared.Main(m) }

// auditPolicy records every write, and the content of eviction requests.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Request
  resources: [{group: "", resources: [pods/eviction]}]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

func newEnv(ctx context.Context) (*env, error) {
	e, err := testenv.Start(ctx, testenv.Options{AuditPolicy: auditPolicy, CRDs: true, Change: func(o *cluster.Options) {
		// For Kubernetes' own PodGroups.
		o.FeatureGates = "GenericWorkload=true"
		o.ExtraArgs[cluster.APIServer] = append(o.ExtraArgs[cluster.APIServer], "--runtime-config=scheduling.k8s.io/v1beta1=true")
		// A node's Lease is deleted a moment after its node. The tests create nodes again under the same names before
		// that. KWOK would then ignore the new node's pods until the Lease is due for renewal, which takes minutes. So
		// Leases are off.
		o.ExtraArgs[cluster.KWOK] = []string{"--node-lease-duration-seconds=0"}
	}})
	if err != nil {
		return nil, err
	}
	rc := e.Cluster.RESTConfig()
	rc.Impersonate.UserName, rc.Impersonate.Groups = autoscalerUser, []string{"system:masters"}
	own := &env{Env: e}
	if own.ours, err = client.New(rc, client.Options{Scheme: scheme.New()}); err == nil {
		err = neighbours.Apply(ctx, e.Admin, "../neighbours/testdata/herd.yaml")
	}
	if err != nil {
		e.Stop()
		return nil, err
	}
	return own, nil
}

// writes returns the matching requests of a user in the audit log.
func (e *env) writes(t *testing.T, user string, match func(testenv.Call) bool) []testenv.Call {
	t.Helper()
	return e.Calls(t, func(c testenv.Call) bool { return c.By(user) && match(c) })
}

// evictions returns the granted evictions of a pod.
func (w *world) evictions(pod string) []testenv.Call {
	w.t.Helper()
	return w.writes(w.t, autoscalerUser, func(c testenv.Call) bool {
		return c.ObjectRef.Subresource == "eviction" && c.ObjectRef.Namespace == w.namespace() && c.ObjectRef.Name == pod && c.Granted()
	})
}
