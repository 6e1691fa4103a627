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

// autoscalerUser is the autoscaler's user in these tests: the audit log and admission
// policies distinguish it from the test's own.
const autoscalerUser = "guardrails-autoscaler"

// env is the control plane that all tests share.
type env struct {
	*testenv.Env
	ours   client.Client // the autoscaler's
	worlds atomic.Int32  // that there have been
}

var shared = testenv.NewShared(newEnv)

func TestMain(m *testing.M) { shared.Main(m) }

// auditPolicy writes down every write, and what evictions ask for.
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
		// Kubernetes' own PodGroups.
		o.FeatureGates = "GenericWorkload=true"
		o.ExtraArgs[cluster.APIServer] = append(o.ExtraArgs[cluster.APIServer], "--runtime-config=scheduling.k8s.io/v1beta1=true")
		// A node's lease is its owner's, and goes a moment after it. Nodes are made again
		// under their names here, sooner than that: KWOK then leaves the new one's pods
		// alone until it would have renewed the lease, which is minutes.
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

// writes are the calls of a user that the API server wrote down and that match.
func (e *env) writes(t *testing.T, user string, match func(testenv.Call) bool) []testenv.Call {
	t.Helper()
	return e.Calls(t, func(c testenv.Call) bool { return c.By(user) && match(c) })
}

// evictions of a pod that were granted.
func (w *world) evictions(pod string) []testenv.Call {
	w.t.Helper()
	return w.writes(w.t, autoscalerUser, func(c testenv.Call) bool {
		return c.ObjectRef.Subresource == "eviction" && c.ObjectRef.Namespace == w.namespace() && c.ObjectRef.Name == pod && c.Granted()
	})
}
