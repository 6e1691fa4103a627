package prom

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// maxRuntimeBytes bounds the answer of the runtime information.
const maxRuntimeBytes = 1 << 20

// Retention returns the server's storage retention, in its own format: "15d",
// "30d or 512GiB". Only Prometheus reports it; for other servers, which lack the
// endpoint or the field, it is empty without an error.
func (c *Client) Retention(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, "api/v1/status/runtimeinfo", url.Values{})
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusMethodNotAllowed:
		return "", nil
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: HTTP %d", ErrUnavailable, resp.StatusCode)
	}
	var a struct {
		Data struct {
			StorageRetention string `json:"storageRetention"`
		} `json:"data"`
	}
	if err := json.NewDecoder(&limitedReader{r: resp.Body, left: maxRuntimeBytes}).Decode(&a); err != nil {
		return "", fmt.Errorf("%w: reading the answer: %w", ErrUnavailable, err)
	}
	return a.Data.StorageRetention, nil
}
