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
	// validFor is how long a certificate is valid. The next one is issued after half of
	// that, so that in a working bundle every CA is valid for more than the thirty days that
	// doctor checks.
	validFor = 90 * 24 * time.Hour
	// spread is how much earlier that may be, so that replicas do not write at the
	// same time.
	spread = 5 * 24 * time.Hour
	// every is how often the bundles are checked: an APIService that is recreated,
	// or whose bundle is overwritten, is repaired within it.
	every = 15 * time.Second
	// settle is how long a CA is in the bundles before its certificate is served, and how
	// long the previous CA stays after that. Prometheus sees a ConfigMap after minutes,
	// and the API server rereads the certificate each minute.
	settle = 10 * time.Minute
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

// pair is a certificate of a CA whose key is thrown away.
type pair struct {
	chain, key []byte
	ca         *x509.Certificate
	due        time.Time // when the next is issued
}

// Issuer has the serving certificates of one process, one after the other.
type Issuer struct {
	o         Options
	served    atomic.Pointer[pair]
	published atomic.Bool // the first CA was in every bundle

	// Of Run alone. pairs are those whose CAs are trusted, the newest last. since is when the
	// newest was published or served, zero before. failing: the last look failed.
	pairs   []*pair
	since   time.Time
	failing bool
}

// New issues the first certificate. Run publishes its CA to the callers.
func New(o Options) (*Issuer, error) {
	i := &Issuer{o: o}
	if err := i.issue(time.Now()); err != nil {
		return nil, err
	}
	i.served.Store(i.pairs[0])
	return i, nil
}

func (i *Issuer) issue(now time.Time) error {
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{
		Host: i.o.Owner, AlternateDNS: []string{i.o.Host, i.o.Host + ".cluster.local", "localhost"}, MaxAge: validFor,
	})
	var all []*x509.Certificate
	if err == nil {
		all, err = cert.ParseCertsPEM(chain)
	}
	if err != nil {
		return fmt.Errorf("issuing a certificate: %w", err)
	}
	i.pairs, i.since = append(i.pairs, &pair{chain, key, all[len(all)-1], now.Add(validFor/2 - rand.N(spread))}), time.Time{}
	return nil
}

// Name implements [dynamiccertificates.CertKeyContentProvider].
func (i *Issuer) Name() string { return "issued for " + i.o.Host }

// AddListener implements [dynamiccertificates.Notifier]. The API server looks by itself.
func (*Issuer) AddListener(dynamiccertificates.Listener) {}

// CurrentCertKeyContent returns the pair that is served.
func (i *Issuer) CurrentCertKeyContent() (chain, key []byte) {
	p := i.served.Load()
	return p.chain, p.key
}

// Ready returns an error until callers trust this process. From then on it is ready,
// whatever happens to the bundles. A nil Issuer is ready.
func (i *Issuer) Ready() error {
	if i == nil || i.published.Load() {
		return nil
	}
	return errors.New("its CA is not in every bundle yet: the log says why")
}

// Run keeps the CAs in the bundles, and serves another certificate in time, until ctx ends.
// A nil Issuer has nothing to do.
func (i *Issuer) Run(ctx context.Context) {
	if i != nil {
		wait.UntilWithContext(ctx, func(ctx context.Context) { i.report(i.look(ctx, time.Now())) }, every)
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

// look updates the bundles and the served certificate.
func (i *Issuer) look(ctx context.Context, now time.Time) error {
	if !now.Before(i.pairs[len(i.pairs)-1].due) {
		if err := i.issue(now); err != nil {
			return err
		}
	}
	var errs []error
	for _, b := range i.o.Bundles {
		errs = append(errs, b.put(ctx, i.o.Client, func(old []byte) ([]byte, error) { return merge(old, i.pairs, i.o.Owner, now) }))
	}
	last := len(i.pairs) - 1
	switch err := errors.Join(errs...); {
	case err != nil:
		return err
	case i.since.IsZero():
		i.since = now
	case last == 0 || now.Sub(i.since) < settle:
	case i.served.Load() != i.pairs[last]:
		i.served.Store(i.pairs[last])
		i.since = now
		i.o.Log.Info("another serving certificate is served")
	default: // no new connection uses the previous certificate
		i.pairs = i.pairs[last:]
	}
	return nil
}
