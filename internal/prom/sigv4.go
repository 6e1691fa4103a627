package prom

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/sigv4"
)

// sign wraps a transport so that it signs. It gets the first credentials at once,
// within the timeout, so that missing credentials give a clear error.
func (s *SigV4) sign(next http.RoundTripper, timeout time.Duration) (http.RoundTripper, error) {
	if s == nil {
		return next, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return sigv4.NewSigV4RoundTripper(&sigv4.SigV4Config{
		Region: s.Region, ServiceName: s.Service, Profile: s.Profile, RoleARN: s.RoleARN, ExternalID: s.ExternalID,
	}, next, sigv4.WithContext(ctx))
}

// shared returns the contents of Amazon's shared credentials file, which its
// library reads only once; "" if there is none.
func (s *SigV4) shared() string {
	if s == nil {
		return ""
	}
	file := os.Getenv("AWS_SHARED_CREDENTIALS_FILE")
	if file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		file = filepath.Join(home, ".aws", "credentials")
	}
	raw, err := os.ReadFile(file)
	if err != nil { // most clusters have none
		return ""
	}
	return string(raw)
}
