package certificate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"
)

// most is how many CAs a bundle holds. The CAs of pods that are gone stay until they expire.
// Beyond most the oldest are dropped; a replica whose CA is dropped adds it again within 15
// seconds.
const most = 100

// Bundle is an object with a bundle of CAs.
type Bundle struct {
	resource        schema.GroupVersionResource
	namespace, name string
	field           []string
	// service that an APIService must name: we do not write the CA of another one.
	service map[string]string
}

// ParseBundle reads apiservice/NAME, or configmap/NAME of the Service's namespace.
func ParseBundle(s, service, namespace string) (Bundle, error) {
	kind, name, _ := strings.Cut(s, "/")
	switch {
	case name == "":
	case kind == "apiservice":
		return Bundle{
			resource: schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
			name:     name, field: []string{"spec", "caBundle"}, service: map[string]string{"name": service, "namespace": namespace},
		}, nil
	case kind == "configmap":
		return Bundle{
			resource:  schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			namespace: namespace, name: name, field: []string{"data", "ca.crt"},
		}, nil
	}
	return Bundle{}, fmt.Errorf("%q is neither apiservice/NAME nor configmap/NAME", s)
}

// put changes the bundle if change returns another text. It does nothing if the
// object does not exist or leads to another server; a later call tries again.
func (b Bundle) put(ctx context.Context, c dynamic.Interface, change func([]byte) ([]byte, error)) error {
	objects := c.Resource(b.resource).Namespace(b.namespace) // "" is the cluster
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		o, err := objects.Get(ctx, b.name, metav1.GetOptions{})
		if err != nil || !b.ours(o) {
			return err
		}
		old, err := b.read(o)
		if err != nil {
			return err
		}
		text, err := change(old)
		if err != nil || bytes.Equal(old, text) {
			return err
		}
		if err := unstructured.SetNestedField(o.Object, b.write(text), b.field...); err != nil {
			return err
		}
		_, err = objects.Update(ctx, o, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %s: %w", b.resource.Resource, b.name, err)
	}
	return nil
}

// ours reports whether callers verify our certificate by this object.
func (b Bundle) ours(o *unstructured.Unstructured) bool {
	for field, want := range b.service {
		if got, _, _ := unstructured.NestedString(o.Object, "spec", "service", field); got != want {
			return false
		}
	}
	// The API server rejects a bundle together with this field.
	skip, _, _ := unstructured.NestedBool(o.Object, "spec", "insecureSkipTLSVerify")
	return !skip
}

func (b Bundle) read(o *unstructured.Unstructured) ([]byte, error) {
	text, _, err := unstructured.NestedString(o.Object, b.field...)
	if err != nil || b.service == nil {
		return []byte(text), err
	}
	return base64.StdEncoding.DecodeString(text)
}

func (b Bundle) write(text []byte) string {
	if b.service != nil { // of type bytes
		return base64.StdEncoding.EncodeToString(text)
	}
	return string(text)
}

// merge returns a bundle with a process' own CAs and those of its replicas. It drops
// CAs that are expired, that are of an earlier process with the same name, or that
// the adapter did not issue. All replicas produce the same text.
func merge(old []byte, own []*pair, owner string, now time.Time) ([]byte, error) {
	all, err := cert.ParseCertsPEM(old)
	if err != nil {
		all = nil // callers cannot use it either
	}
	all = slices.DeleteFunc(all, func(c *x509.Certificate) bool {
		whose, _, issuedHere := strings.Cut(c.Subject.CommonName, "-ca@")
		return !issuedHere || !c.IsCA || whose == owner || !now.Before(c.NotAfter)
	})
	slices.SortFunc(all, older)
	all = all[max(0, len(all)+len(own)-most):]
	for _, p := range own {
		all = append(all, p.ca)
	}
	slices.SortFunc(all, older)
	return cert.EncodeCertificates(all...)
}

func older(a, b *x509.Certificate) int {
	return cmp.Or(a.NotBefore.Compare(b.NotBefore), bytes.Compare(a.Raw, b.Raw))
}
