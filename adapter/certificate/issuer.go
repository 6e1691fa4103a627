package certificate

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/cert"
)

const (
	// validFor is how long a certificate is valid. The program starts again with another after
	// half of that, so that no CA in a bundle that works is within doctor's thirty days of its end.
	validFor = 90 * 24 * time.Hour
	// spread is how much earlier that may be, so that replicas do not start again together.
	spread = 5 * 24 * time.Hour
	// every is the time between two looks at the bundles: an APIService that is made
	// again, or whose bundle is overwritten, is repaired within it.
	every = 15 * time.Second
)

// Options of an Issuer.
type Options struct {
	// Host is the name that callers verify: SERVICE.NAMESPACE.svc.
	Host string
	// Owner names this process among its replicas: the pod's name. A later process of
	// the same name replaces its CA.
	Owner   string
	Bundles []Bundle
	Client  dynamic.Interface
	Log     *slog.Logger
}

// Issuer has the serving certificate of one process, of a CA whose key is thrown away.
type Issuer struct {
	dynamiccertificates.CertKeyContentProvider
	o         Options
	ca        *x509.Certificate
	due       time.Time   // when another certificate is
	published atomic.Bool // the CA was in every bundle
	failing   bool        // of Run alone: the last look failed
}

// New issues the certificate. Run has callers trust it.
func New(o Options) (*Issuer, error) {
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: o.Owner, AlternateDNS: []string{o.Host, o.Host + ".cluster.local", "localhost"}, MaxAge: validFor,
	})
	var all []*x509.Certificate
	if err == nil {
		all, err = cert.ParseCertsPEM(chain)
	}
	if err != nil || len(all) != 2 {
		return nil, fmt.Errorf("issuing a certificate: %d certificates instead of two: %w", len(all), err)
	}
	served, err := dynamiccertificates.NewStaticCertKeyContent("issued for "+o.Host, chain, key)
	return &Issuer{CertKeyContentProvider: served, o: o, ca: all[1], due: time.Now().Add(validFor/2 - rand.N(spread))}, err
}

// Ready is an error until callers trust this process. Then a replica stays in, whatever
// happens to the bundles. A nil Issuer is ready.
func (i *Issuer) Ready() error {
	if i == nil || i.published.Load() {
		return nil
	}
	return errors.New("its CA is not in every bundle yet: the log says why")
}

// Run keeps the CA in the bundles. It returns true once another certificate is due and can be
// published, false when ctx ends. A nil Issuer has nothing to do.
func (i *Issuer) Run(ctx context.Context) (due bool) {
	if i == nil {
		return false
	}
	_ = wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		now := time.Now()
		i.report(i.look(ctx, now))
		due = !i.failing && now.After(i.due)
		return due, nil
	})
	return due
}

// report logs the first of a row of failures, and its end.
func (i *Issuer) report(err error) {
	switch {
	case err != nil && !i.failing:
		i.o.Log.Warn("publishing the serving certificate's CA", slog.Any("error", err))
	case err == nil && i.failing:
		i.o.Log.Info("the serving certificate's CA is published")
	}
	i.failing = err != nil
	i.published.CompareAndSwap(false, err == nil)
}

// look brings the bundles to what they should be now.
func (i *Issuer) look(ctx context.Context, now time.Time) error {
	var errs []error
	for _, b := range i.o.Bundles {
		errs = append(errs, b.put(ctx, i.o.Client, func(old []byte) ([]byte, error) { return merge(old, i.ca, i.o.Owner, now) }))
	}
	return errors.Join(errs...)
}
