package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gpuscale/gpuscale/internal/prom/promtest"
)

// asked counts what reaches the API server and answers with verdict.
type asked struct {
	authorizer.Authorizer
	n       int
	verdict authorizer.Decision
	err     error
}

func (a *asked) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	a.n++
	return a.verdict, "because", a.err
}

func attributes(namespace, metric string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "hpa"}, Verb: "list", Namespace: namespace,
		APIGroup: "external.metrics.k8s.io", APIVersion: "v1beta1", Resource: metric, ResourceRequest: true,
	}
}

// TestDecisionsOutliveTheHPAsPeriod: 15 s later the API server is not asked
// again, after the time is over it is; a refusal is forgotten sooner, and an
// error at once.
func TestDecisionsOutliveTheHPAsPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &asked{verdict: authorizer.DecisionAllow}
		d := newDecisions(api, allowFor, denyFor)
		expect := func(step string, n int, verdict authorizer.Decision) {
			t.Helper()
			got, reason, err := d.Authorize(t.Context(), attributes("chat", "queue_depth"))
			if api.n != n || got != verdict || err == nil && reason != "because" {
				t.Errorf("%s: %v (%q, %v) after %d reviews, want %v after %d", step, got, reason, err, api.n, verdict, n)
			}
		}
		expect("first", 1, authorizer.DecisionAllow)
		for range 3 {
			time.Sleep(15 * time.Second)
			expect("the HPA comes again", 1, authorizer.DecisionAllow)
		}
		time.Sleep(16 * time.Second)
		api.verdict = authorizer.DecisionNoOpinion
		expect("after a minute", 2, authorizer.DecisionNoOpinion)
		expect("a refusal again", 2, authorizer.DecisionNoOpinion)
		time.Sleep(denyFor + time.Second)
		api.err = errors.New("no API server")
		expect("no API server", 3, authorizer.DecisionNoOpinion)
		expect("still none", 4, authorizer.DecisionNoOpinion)
		api.err, api.verdict = nil, authorizer.DecisionAllow
		expect("back", 5, authorizer.DecisionAllow)
	})
}

// TestTenThousandDecisionsFit: 5,000 HPAs with two metrics each, in the same
// order each time.
func TestTenThousandDecisionsFit(t *testing.T) {
	api := &asked{verdict: authorizer.DecisionAllow}
	d := newDecisions(api, time.Hour, 0)
	for round := range 2 {
		for n := range 10_000 {
			if _, _, err := d.Authorize(t.Context(), attributes(fmt.Sprint("team-", n/2), fmt.Sprint("m", n%2))); err != nil {
				t.Fatal(err)
			}
		}
		if api.n != 10_000 {
			t.Fatalf("%d reviews after round %d", api.n, round+1)
		}
	}
}

// TestDecisionsOfDifferentRequestsAreApart: whatever differs, the API server
// decides again.
func TestDecisionsOfDifferentRequestsAreApart(t *testing.T) {
	base := attributes("chat", "queue_depth")
	selector := func(text string) labels.Requirements {
		s, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := s.Requirements()
		return r
	}
	variants := []func(*authorizer.AttributesRecord){
		func(*authorizer.AttributesRecord) {},
		func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "other"} },
		func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "hpa", UID: "1"} },
		func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "hpa", Groups: []string{"a", "b"}}
		},
		func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "hpa", Groups: []string{"ab"}} },
		func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "hpa", Extra: map[string][]string{"scopes": {"x"}}}
		},
		func(a *authorizer.AttributesRecord) { a.User = nil },
		func(a *authorizer.AttributesRecord) { a.Verb = "get" },
		func(a *authorizer.AttributesRecord) { a.Namespace = "other" },
		func(a *authorizer.AttributesRecord) { a.APIGroup = "custom.metrics.k8s.io" },
		func(a *authorizer.AttributesRecord) { a.Resource = "pods" },
		func(a *authorizer.AttributesRecord) { a.Subresource = "queue_depth" },
		func(a *authorizer.AttributesRecord) { a.Name = "a" },
		func(a *authorizer.AttributesRecord) { a.Path = "/metrics" },
		func(a *authorizer.AttributesRecord) { a.ResourceRequest = false },
		func(a *authorizer.AttributesRecord) { a.LabelSelectorRequirements = selector("a=b") },
		func(a *authorizer.AttributesRecord) { a.LabelSelectorRequirements = selector("a in (b,c)") },
		func(a *authorizer.AttributesRecord) {
			a.FieldSelectorRequirements = fields.OneTermEqualSelector("metadata.name", "a").Requirements()
		},
	}
	met := map[[32]byte]int{}
	for i, change := range variants {
		a := base
		change(&a)
		k := decisionKey(a)
		if j, twice := met[k]; twice {
			t.Errorf("variants %d and %d share a decision", j, i)
		}
		met[k] = i
	}
}

// TestFlagsOverruleOurCacheTimes.
func TestFlagsOverruleOurCacheTimes(t *testing.T) {
	base := newBase(io.Discard)
	if err := base.Flags().Parse(nil); err != nil {
		t.Fatal(err)
	}
	if a := base.Authorization; a.AllowCacheTTL != allowFor || a.DenyCacheTTL != denyFor {
		t.Errorf("%s, %s without flags", a.AllowCacheTTL, a.DenyCacheTTL)
	}
	if err := base.Flags().Parse([]string{"--authorization-webhook-cache-authorized-ttl=3s"}); err != nil {
		t.Fatal(err)
	}
	if a := base.Authorization; a.AllowCacheTTL != 3*time.Second || a.DenyCacheTTL != denyFor {
		t.Errorf("%s, %s with a flag", a.AllowCacheTTL, a.DenyCacheTTL)
	}
}

const queueDepth = "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/queue_depth"

// TestWhoMayAsk runs the API server with TLS against a fake of Kubernetes'
// own: the aggregator's certificate is believed about users, and nothing else
// is.
func TestWhoMayAsk(t *testing.T) {
	kube := newFakeKube(t)
	kube.allow = func(name string) bool { return name == "hpa" }
	server := startServer(t, kube, &answering{}, nil)
	frontProxy, stranger := kube.frontProxyCA, promtest.NewAuthority(t, "stranger")

	remote := func(name string) http.Header { return http.Header{"X-Remote-User": {name}} }
	cases := []struct {
		what   string
		client *http.Client
		header http.Header
		code   int
	}{
		{"the aggregator for a user who may", server.client(t, frontProxy, "front-proxy-client"), remote("hpa"), 200},
		{"the aggregator for a user who may not", server.client(t, frontProxy, "front-proxy-client"), remote("unknown"), 403},
		{"the aggregator without a user", server.client(t, frontProxy, "front-proxy-client"), nil, 401},
		{"a certificate of that CA with another name", server.client(t, frontProxy, "some-client"), remote("hpa"), 401},
		{"a certificate of another CA", server.client(t, stranger, "front-proxy-client"), remote("hpa"), 401},
		{"a client of the cluster that claims to be another", server.client(t, kube.clientCA, "unknown"), remote("hpa"), 403},
		{"a client of the cluster for itself", server.client(t, kube.clientCA, "hpa"), nil, 200},
		{"no certificate but a user header", server.client(t, nil, ""), remote("hpa"), 403},
		{"a group header of administrators", server.client(t, nil, ""), http.Header{"X-Remote-User": {"x"}, "X-Remote-Group": {"system:masters"}}, 403},
		{"a token", server.client(t, nil, ""), http.Header{"Authorization": {"Bearer token-of-hpa"}}, 200},
		{"a wrong token", server.client(t, nil, ""), http.Header{"Authorization": {"Bearer nonsense"}}, 401},
	}
	for _, c := range cases {
		code, body := server.get(t, c.client, queueDepth, c.header)
		if code != c.code {
			t.Errorf("%s: HTTP %d, want %d: %s", c.what, code, c.code, body)
		}
	}
}

// TestOneReviewForManyRequests: the cache is in the server's way, not only
// there.
func TestOneReviewForManyRequests(t *testing.T) {
	kube := newFakeKube(t)
	kube.allow = func(string) bool { return true }
	server := startServer(t, kube, &answering{}, nil)
	client := server.client(t, kube.frontProxyCA, "front-proxy-client")
	for range 20 {
		if code, body := server.get(t, client, queueDepth, http.Header{"X-Remote-User": {"hpa"}}); code != 200 {
			t.Fatalf("HTTP %d: %s", code, body)
		}
	}
	if n := kube.reviews.Load(); n != 1 {
		t.Errorf("%d SubjectAccessReviews for 20 requests", n)
	}
	server.get(t, client, strings.Replace(queueDepth, "chat", "other", 1), http.Header{"X-Remote-User": {"hpa"}})
	if n := kube.reviews.Load(); n != 2 {
		t.Errorf("%d SubjectAccessReviews after one for another namespace", n)
	}
}

// TestBothVersions: the same value in v1beta1 and v1beta2 of custom metrics,
// with its time and window.
func TestBothVersions(t *testing.T) {
	kube := newFakeKube(t)
	kube.allow = func(string) bool { return true }
	server := startServer(t, kube, &answering{}, nil)
	client := server.client(t, kube.clientCA, "hpa")
	for version, field := range map[string]string{
		"v1beta1": `"metricName":"queue_depth"`, "v1beta2": `"metric":{"name":"queue_depth"`,
	} {
		_, body := server.get(t, client, "/apis/custom.metrics.k8s.io/"+version+"/namespaces/chat/pods/a/queue_depth", nil)
		for _, want := range []string{field, `"value":"7"`, `"timestamp":"2026-01-02T03:04:05Z"`, `"window`, `:30`} {
			if !strings.Contains(body, want) {
				t.Errorf("%s lacks %s: %s", version, want, body)
			}
		}
	}
}
