package certificate

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/cert"
)

const (
	// validFor is how long a certificate is valid. Its process ends after half of that, so
	// that no CA in a bundle that works is within doctor's thirty days of its end.
	validFor = 90 * 24 * time.Hour
	// spread is how much earlier that may be, so that replicas do not end together.
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

// Issuer is a certificate for one process, of a CA whose key is thrown away.
type Issuer struct {
	dynamiccertificates.CertKeyContentProvider
	o     Options
	ca    *x509.Certificate
	until time.Time // when another is due

	failing bool // of Run alone
	mu      sync.Mutex
	pending error // why the CA is not yet in every bundle; nil once it was
}

// New issues the certificate. Run has callers trust it.
func New(o Options) (*Issuer, error) {
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: o.Owner, AlternateDNS: []string{o.Host, o.Host + ".cluster.local", "localhost"}, MaxAge: validFor,
	})
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	all, err := cert.ParseCertsPEM(chain)
	if err != nil || len(all) != 2 {
		return nil, fmt.Errorf("issuing a certificate: %d certificates instead of two: %w", len(all), err)
	}
	served, err := dynamiccertificates.NewStaticCertKeyContent("issued for "+o.Host, chain, key)
	if err != nil {
		return nil, fmt.Errorf("issuing a certificate: %w", err)
	}
	until := all[1].NotBefore.Add(validFor/2 - rand.N(spread))
	return &Issuer{CertKeyContentProvider: served, o: o, ca: all[1], until: until, pending: errors.New("its CA is not published yet")}, nil
}

// Ready returns why callers do not trust this process yet. Once they did it returns nil:
// a replica that serves stays in, whatever happens to the bundles. A nil Issuer is ready.
func (i *Issuer) Ready() error {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.pending
}

// Run keeps the CA in the bundles. It returns true when another certificate is due, and
// false when ctx ends. A nil Issuer has nothing to do.
func (i *Issuer) Run(ctx context.Context) bool {
	if i == nil {
		return false
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for time.Now().Before(i.until) {
		i.report(i.look(ctx, time.Now()))
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
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
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pending != nil {
		i.pending = err
	}
}

// look brings the bundles to what they should be now.
func (i *Issuer) look(ctx context.Context, now time.Time) error {
	var errs []error
	for _, b := range i.o.Bundles {
		errs = append(errs, b.put(ctx, i.o.Client, func(old []byte) ([]byte, error) { return merge(old, i.ca, i.o.Owner, now) }))
	}
	return errors.Join(errs...)
}
