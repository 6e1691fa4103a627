package certificate

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/cert"
)

const (
	// validFor is how long a pair is valid. It is replaced after half of that, so that
	// no CA in a bundle that works is within doctor's thirty days of its end.
	validFor = 90 * 24 * time.Hour
	// every is the time between two looks at the bundles: an APIService that is made
	// again, or whose bundle is overwritten, is repaired within it.
	every = 15 * time.Second
	// settle is how long a new CA is in the bundles before its certificate is served:
	// API servers and Prometheus read bundles a moment after they are written.
	settle = 5 * time.Minute
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
	// Now is the clock.
	Now func() time.Time
}

// pair is a serving certificate, its key, and the CA that signed it, whose key is gone.
type pair struct {
	cert, key []byte
	ca        *x509.Certificate
}

// Issuer issues the certificate. It is a dynamiccertificates.CertKeyContentProvider.
type Issuer struct {
	o Options

	mu        sync.Mutex
	serving   pair
	listeners []dynamiccertificates.Listener
	pending   error // why the CA is not yet in every bundle; nil once it was

	// Of Run alone.
	next      *pair
	published time.Time // when next was first in every bundle; zero before
	failing   bool
}

// New issues the first certificate. Run has callers trust it.
func New(o Options) (*Issuer, error) {
	first, err := issue(o)
	if err != nil {
		return nil, err
	}
	return &Issuer{o: o, serving: *first, pending: errors.New("its CA is not published yet")}, nil
}

func issue(o Options) (*pair, error) {
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
	return &pair{cert: chain, key: key, ca: all[1]}, nil
}

// Name implements dynamiccertificates.CertKeyContentProvider.
func (i *Issuer) Name() string { return "issued for " + i.o.Host }

// CurrentCertKeyContent implements dynamiccertificates.CertKeyContentProvider.
func (i *Issuer) CurrentCertKeyContent() (certPEM, keyPEM []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.serving.cert, i.serving.key
}

// AddListener implements dynamiccertificates.Notifier.
func (i *Issuer) AddListener(l dynamiccertificates.Listener) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.listeners = append(i.listeners, l)
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

// Run publishes and renews until ctx ends. A nil Issuer has nothing to do.
func (i *Issuer) Run(ctx context.Context) {
	if i == nil {
		return
	}
	for tick := time.NewTicker(every); ; {
		i.report(i.look(ctx))
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
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
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pending != nil {
		i.pending = err
	}
}

// look brings bundles and certificate to what they should be now.
func (i *Issuer) look(ctx context.Context) error {
	now := i.o.Now()
	if i.next == nil && now.After(half(i.serving.ca)) {
		next, err := issue(i.o)
		if err != nil {
			return err
		}
		i.next, i.published = next, time.Time{}
	}
	own := []*x509.Certificate{i.serving.ca}
	if i.next != nil {
		own = append(own, i.next.ca)
	}
	var errs []error
	for _, b := range i.o.Bundles {
		errs = append(errs, b.put(ctx, i.o.Client, func(old []byte) ([]byte, error) { return merge(old, own, i.o.Owner, now) }))
	}
	if err := errors.Join(errs...); err != nil || i.next == nil {
		return err
	}
	if i.published.IsZero() {
		i.published = now
	}
	if now.Sub(i.published) >= settle {
		i.swap()
	}
	return nil
}

// swap serves the next certificate. The bundles lose the old CA at the next look.
func (i *Issuer) swap() {
	i.mu.Lock()
	i.serving, i.next = *i.next, nil
	listeners := i.listeners
	i.mu.Unlock()
	for _, l := range listeners {
		l.Enqueue()
	}
	i.o.Log.Info("the serving certificate was renewed", slog.Time("until", i.serving.ca.NotAfter))
}

// half is the middle of a certificate's life.
func half(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 2)
}
