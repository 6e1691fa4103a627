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

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/cert"
)

const (
	// validFor is how long a certificate is valid. The process ends after half of that, so
	// that in a working bundle every CA is valid for more than the thirty days that doctor
	// checks.
	validFor = 90 * 24 * time.Hour
	// spread is how much earlier that may be, so that replicas do not end at the same time.
	spread = 5 * 24 * time.Hour
	// every is how often the bundles are checked: an APIService that is recreated,
	// or whose bundle is overwritten, is repaired within it.
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

// Issuer has the serving certificate of one process. The key of its CA is thrown away.
type Issuer struct {
	o          Options
	chain, key []byte
	ca         *x509.Certificate
	due        time.Time   // when another process is to issue the next one
	published  atomic.Bool // the CA was in every bundle
	failing    bool        // of Run alone: the last look failed
}

// New issues the certificate. Run publishes its CA to the callers.
func New(o Options) (*Issuer, error) {
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: o.Owner, AlternateDNS: []string{o.Host, o.Host + ".cluster.local", "localhost"}, MaxAge: validFor,
	})
	var all []*x509.Certificate
	if err == nil {
		all, err = cert.ParseCertsPEM(chain)
	}
	if err == nil && len(all) != 2 {
		err = fmt.Errorf("%d certificates instead of two", len(all))
	}
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	return &Issuer{o: o, chain: chain, key: key, ca: all[1], due: time.Now().Add(validFor/2 - rand.N(spread))}, nil
}

// Name implements [dynamiccertificates.CertKeyContentProvider].
func (i *Issuer) Name() string { return "issued for " + i.o.Host }

// AddListener implements [dynamiccertificates.Notifier]. The pair never changes.
func (*Issuer) AddListener(dynamiccertificates.Listener) {}

// CurrentCertKeyContent returns the pair that is served.
func (i *Issuer) CurrentCertKeyContent() (chain, key []byte) { return i.chain, i.key }

// Ready returns an error until callers trust this process. From then on it is ready,
// whatever happens to the bundles. A nil Issuer is ready.
func (i *Issuer) Ready() error {
	if i == nil || i.published.Load() {
		return nil
	}
	return errors.New("its CA is not in every bundle yet: the log says why")
}

// Run keeps the CA in the bundles until ctx ends. It returns true when another certificate is due,
// if the bundles can be written: the next process has to publish its CA there. A nil Issuer has
// nothing to do.
func (i *Issuer) Run(ctx context.Context) (due bool) {
	if i == nil {
		return false
	}
	for {
		i.report(i.look(ctx, time.Now()))
		if !i.failing && time.Now().After(i.due) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(every):
		}
	}
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

// look updates the bundles.
func (i *Issuer) look(ctx context.Context, now time.Time) error {
	var errs []error
	for _, b := range i.o.Bundles {
		errs = append(errs, b.put(ctx, i.o.Client, func(old []byte) ([]byte, error) { return merge(old, i.ca, i.o.Owner, now) }))
	}
	return errors.Join(errs...)
}
