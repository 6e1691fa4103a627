package pools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// maxAnswer of a service, in bytes.
const maxAnswer = 4 << 20

// call is one signed request to a service with one or two calls in use: the SDK's package for EC2
// alone would be larger than the rest of the program.
type call struct {
	service, url string
	header       map[string]string
	body         []byte
}

// endpoint returns the URL of a service, or the one that the configuration sets for all.
func endpoint(c aws.Config, service string) string {
	if c.BaseEndpoint != nil {
		return *c.BaseEndpoint
	}
	domain := "amazonaws.com"
	if strings.HasPrefix(c.Region, "cn-") {
		domain += ".cn"
	}
	return fmt.Sprintf("https://%s.%s.%s/", service, c.Region, domain)
}

// do signs and sends the call. A status other than 200 is an error with the start of the answer.
func (c call) do(ctx context.Context, config aws.Config, now time.Time) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(c.body))
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", c.service, err)
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	credentials, err := config.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("getting credentials for %s: %w", c.service, err)
	}
	sum := sha256.Sum256(c.body)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), c.service, config.Region, now); err != nil {
		return nil, fmt.Errorf("signing a request to %s: %w", c.service, err)
	}
	var doer aws.HTTPClient = http.DefaultClient
	if config.HTTPClient != nil {
		doer = config.HTTPClient
	}
	resp, err := doer.Do(req)
	if err != nil {
		return nil, fmt.Errorf("calling %s: %w", c.service, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", c.service, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: %.200s", c.service, resp.Status, answer)
	}
	return answer, nil
}
