package act

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/client-go/rest"
)

// Fence returns a copy of a client's configuration with which each request that may write first
// checks e with the API server, and fails with ErrDeposed once e has ended. Reads pass. Without an
// epoch it returns rc.
func Fence(rc *rest.Config, e *Epoch) *rest.Config {
	if e == nil {
		return rc
	}
	rc = rest.CopyConfig(rc)
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return fenced{next, e} })
	return rc
}

type fenced struct {
	next  http.RoundTripper
	epoch *Epoch
}

// RoundTrip implements http.RoundTripper.
func (f fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		if err := f.epoch.May(r.Context(), r.Method+" "+r.URL.Path); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // as http.RoundTripper requires; it was not sent
			}
			return nil, err
		}
	}
	return f.next.RoundTrip(r)
}

// May returns why a write must not be made: e has ended, or whether it has is unknown.
func (e *Epoch) May(ctx context.Context, write string) error {
	err := e.Check(ctx)
	if errors.Is(err, ErrDeposed) {
		e.o.Log.Warn("write refused", "write", write, "err", err)
	}
	return err
}
