package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/cert"

	"github.com/gpuscale/gpuscale/internal/require"
)

const host = "gpuscale-adapter.gpus.svc"

// cluster has an APIService and a ConfigMap, in client-go's own fake (v0.37.1), which compares no resourceVersion.
// sandbox/chart tests with a real API server.
func cluster() *fake.FakeDynamicClient {
	object := func(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(apiVersion)
		o.SetKind(kind)
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	api := object("apiregistration.k8s.io/v1", "APIService", "", "v1beta1.external.metrics.k8s.io")
	api.Object["spec"] = map[string]any{"service": map[string]any{"name": "gpuscale-adapter", "namespace": "gpus"}}
	return fake.NewSimpleDynamicClient(runtime.NewScheme(), api, object("v1", "ConfigMap", "gpus", "ca"))
}

func bundle(t *testing.T, text string) Bundle {
	t.Helper()
	b, err := ParseBundle(text, "gpuscale-adapter", "gpus")
	require.NoError(t, err)
	return b
}

// issuer is a replica, whose bundles are the APIService and the ConfigMap.
func issuer(t *testing.T, c *fake.FakeDynamicClient, owner string) *Issuer {
	t.Helper()
	i, err := New(Options{
		Host: host, Owner: owner, Client: c, Log: slog.New(slog.DiscardHandler),
		Bundles: []Bundle{bundle(t, "apiservice/v1beta1.external.metrics.k8s.io"), bundle(t, "configmap/ca"), bundle(t, "apiservice/not.there")},
	})
	require.NoError(t, err)
	return i
}

// look is one check by Run.
func look(t *testing.T, i *Issuer) {
	t.Helper()
	err := i.look(t.Context(), time.Now())
	i.report(err)
	require.NoError(t, err)
}

// trusted are the CAs of the APIService; the ConfigMap must have the same.
func trusted(t *testing.T, c *fake.FakeDynamicClient) []*x509.Certificate {
	t.Helper()
	read := func(b Bundle) string {
		o, err := c.Resource(b.resource).Namespace(b.namespace).Get(t.Context(), b.name, metav1.GetOptions{})
		require.NoError(t, err)
		text, err := b.read(o)
		require.NoError(t, err)
		return string(text)
	}
	text := read(bundle(t, "apiservice/v1beta1.external.metrics.k8s.io"))
	if other := read(bundle(t, "configmap/ca")); other != text {
		t.Fatalf("the bundles differ:\n%s\n%s", text, other)
	}
	all, err := cert.ParseCertsPEM([]byte(text))
	require.NoError(t, err)
	return all
}

// verified returns the error of a caller that reads the APIService and calls this replica.
func verified(t *testing.T, c *fake.FakeDynamicClient, i *Issuer) error {
	t.Helper()
	pair, err := tls.X509KeyPair(i.CurrentCertKeyContent())
	require.NoError(t, err)
	roots := x509.NewCertPool()
	for _, ca := range trusted(t, c) {
		roots.AddCert(ca)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
	return err
}

func TestReplicasAreTrustedTogether(t *testing.T) {
	c := cluster()
	one, two := issuer(t, c, "one"), issuer(t, c, "two")
	if one.Ready() == nil {
		t.Error("ready before any caller can trust it")
	}
	look(t, one)
	look(t, two)
	require.NoError(t, errors.Join(one.Ready(), two.Ready(), verified(t, c, one), verified(t, c, two)))
	c.ClearActions()
	look(t, one)
	for _, a := range c.Actions() {
		if a.GetVerb() != "get" {
			t.Errorf("a look at what is right already makes a write: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// TestAnotherIsServed: a replica replaces its certificate before half of its validity is over, not at the same time as
// the other replicas. The served one is trusted all the time.
func TestAnotherIsServed(t *testing.T) {
	c := cluster()
	one, two := issuer(t, c, "one"), issuer(t, c, "two")
	first, start, chain := one.pairs[0], time.Now(), c.ReactionChain
	for _, i := range []*Issuer{one, two} {
		ca := i.pairs[0].ca
		if life, until := ca.NotAfter.Sub(ca.NotBefore), i.pairs[0].due.Sub(start); life != validFor || until > validFor/2 || until < validFor/2-spread-time.Minute {
			t.Errorf("valid for %s, another is due after %s", life, until)
		}
	}
	if first.due.Sub(two.pairs[0].due).Abs() < time.Second {
		t.Error("both replicas replace theirs at once")
	}
	two.pairs[0].due = first.due.Add(time.Hour)
	for _, at := range []struct {
		after          time.Duration
		served, trusts int // which of the replica's pairs is served, and how many CAs are trusted
		refused        bool
	}{
		{-time.Second, 0, 2, false}, {0, 0, 2, true}, {1, 0, 3, false}, {settle, 0, 3, false}, {settle + 1, 1, 3, false},
		{2 * settle, 1, 3, false}, {2*settle + 1, 1, 3, false}, {2*settle + every, 1, 2, false}, {24 * time.Hour, 1, 3, false},
	} {
		c.ReactionChain = chain
		if at.refused {
			c.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("not now")
			})
		}
		for _, i := range []*Issuer{one, two} {
			if err := i.look(t.Context(), first.due.Add(at.after)); (err != nil) != (at.refused && i == one) {
				t.Errorf("%s: %v", at.after, err)
			}
		}
		if served := one.served.Load(); (served != first) != (at.served == 1) || len(trusted(t, c)) != at.trusts {
			t.Errorf("%s: the first is served: %t, %d CAs", at.after, served == first, len(trusted(t, c)))
		}
		if err := errors.Join(verified(t, c, one), verified(t, c, two)); err != nil {
			t.Errorf("%s: %v", at.after, err)
		}
	}
}

func TestWhatIsOverwrittenComesBack(t *testing.T) {
	c := cluster()
	i := issuer(t, c, "one")
	look(t, i)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	foreign, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "KEDA"}, key)
	require.NoError(t, err)
	gone, _ := issuer(t, c, "gone").CurrentCertKeyContent()
	earlier, _ := issuer(t, c, "one").CurrentCertKeyContent()
	for name, text := range map[string]string{
		"empty": "", "not PEM": "nonsense", "another's": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: foreign.Raw})),
		"of a replica, and of this pod's earlier container": string(gone) + string(earlier),
	} {
		b := bundle(t, "apiservice/v1beta1.external.metrics.k8s.io")
		err := b.put(t.Context(), c, func([]byte) ([]byte, error) { return []byte(text), nil })
		require.NoError(t, err)
		require.NoError(t, bundle(t, "configmap/ca").put(t.Context(), c, func([]byte) ([]byte, error) { return []byte(text), nil }))
		look(t, i)
		if err := verified(t, c, i); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := 1
		if strings.Contains(name, "replica") {
			want = 2 // the replica's CA, not that of an earlier process of this pod
		}
		if n := len(trusted(t, c)); n != want {
			t.Errorf("%s: %d CAs are trusted, want %d", name, n, want)
		}
	}
}

// TestBundleIsBounded: pods that come and go leave at most one bundle of CAs. They never remove the CA of the pod that
// checks, nor do forty of them remove that of an older replica.
func TestBundleIsBounded(t *testing.T) {
	c := cluster()
	i := issuer(t, c, "one")
	var text []byte
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	last := max(most, 40) + 2
	for n := range last + 1 {
		ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "gone-ca@1", NotBefore: time.Now()}, key)
		require.NoError(t, err)
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})...)
		if n != 40 && n != last {
			continue
		}
		for _, b := range i.o.Bundles {
			require.NoError(t, b.put(t.Context(), c, func([]byte) ([]byte, error) { return text, nil }))
		}
		look(t, i)
		if n == 40 {
			look(t, issuer(t, c, "two"))
			require.NoError(t, verified(t, c, i))
		}
	}
	if n := len(trusted(t, c)); n != most {
		t.Errorf("%d CAs", n)
	}
	require.NoError(t, verified(t, c, i))
	require.NoError(t, i.look(t.Context(), time.Now().AddDate(11, 0, 0))) // beyond what the library gives a CA
	for _, ca := range trusted(t, c) {
		if ca.Subject.CommonName == "gone-ca@1" {
			t.Error("an expired CA is left")
		}
	}
}

func TestRefusedAndConflicting(t *testing.T) {
	c := cluster()
	i := issuer(t, c, "one")
	refuse := true
	conflicts := 0
	c.PrependReactor("update", "apiservices", func(clienttesting.Action) (bool, runtime.Object, error) {
		switch {
		case refuse:
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "apiservices"}, "x", errors.New("no right"))
		case conflicts < 2:
			conflicts++
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "apiservices"}, "x", errors.New("another replica was faster"))
		}
		return false, nil, nil
	})
	err := i.look(t.Context(), time.Now())
	i.report(err)
	if err == nil || i.Ready() == nil || !strings.Contains(err.Error(), "apiservices v1beta1.external.metrics.k8s.io") {
		t.Fatalf("a refused write: %v, ready: %v", err, i.Ready())
	}
	refuse = false
	look(t, i)
	if err := errors.Join(i.Ready(), verified(t, c, i)); err != nil || conflicts != 2 {
		t.Errorf("%v after %d conflicts", err, conflicts)
	}
	require.NoError(t, bundle(t, "configmap/ca").put(t.Context(), c, func([]byte) ([]byte, error) { return nil, nil }))
	c.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "ca", errors.New("no right"))
	})
	if err := i.look(t.Context(), time.Now()); err == nil {
		t.Error("the bundle is not looked at")
	} else {
		i.report(err)
	}
	if err := i.Ready(); err != nil {
		t.Errorf("a replica that serves is taken out because of a later failure: %v", err)
	}
}

// TestAnothersAPIService: KEDA's CA is not overwritten in an APIService that names KEDA, and no bundle is added to one
// without verification.
func TestAnothersAPIService(t *testing.T) {
	for name, spec := range map[string]map[string]any{
		"KEDA's":                {"caBundle": "S0VEQQ==", "service": map[string]any{"name": "keda-operator-metrics-apiserver", "namespace": "gpus"}},
		"of another namespace":  {"caBundle": "S0VEQQ==", "service": map[string]any{"name": "gpuscale-adapter", "namespace": "other"}},
		"that verifies nothing": {"insecureSkipTLSVerify": true, "service": map[string]any{"name": "gpuscale-adapter", "namespace": "gpus"}},
	} {
		c := cluster()
		b := bundle(t, "apiservice/v1beta1.external.metrics.k8s.io")
		api, err := c.Resource(b.resource).Get(t.Context(), b.name, metav1.GetOptions{})
		require.NoError(t, err)
		api.Object["spec"] = spec
		_, err = c.Resource(b.resource).Update(t.Context(), api, metav1.UpdateOptions{})
		require.NoError(t, err)
		c.ClearActions()
		look(t, issuer(t, c, "one"))
		for _, a := range c.Actions() {
			if a.GetVerb() == "update" && a.GetResource().Resource == "apiservices" {
				t.Errorf("an APIService %s is written", name)
			}
		}
	}
}

func TestParseBundle(t *testing.T) {
	for _, bad := range []string{"", "apiservice", "apiservice/", "secret/x", "/x"} {
		if _, err := ParseBundle(bad, "gpuscale-adapter", "gpus"); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	b := bundle(t, "apiservice/x")
	if got := b.write([]byte("ca")); got != base64.StdEncoding.EncodeToString([]byte("ca")) {
		t.Errorf("caBundle is written as %q", got)
	}
}
