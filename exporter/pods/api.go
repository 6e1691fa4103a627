package pods

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"
)

// API reads objects of the Kubernetes API. A node agent needs three reads, all
// of its own node's objects, so it carries no client library and can neither
// list the cluster nor watch.
type API struct {
	// Base is the API server: "https://10.0.0.1:443".
	Base string
	// Client has the server's certificates and a timeout.
	Client *http.Client
	// TokenFile is read for every request: the kubelet renews it. Empty sends none.
	TokenFile string
}

// ErrNotInCluster says that the process runs under no service account.
var ErrNotInCluster = errors.New("not in a cluster: no service account, or KUBERNETES_SERVICE_HOST is not set")

// errNotFound is a path or an object that the API server does not have.
var errNotFound = errors.New("not found")

const (
	accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"
	apiTimeout    = 10 * time.Second
	// maxObjects bounds one answer: the 250 pods of a full node take about 5 MB.
	maxObjects = 64 << 20
)

// InCluster returns the API as the pod's service account sees it.
func InCluster() (*API, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, ErrNotInCluster
	}
	pem, err := os.ReadFile(path.Join(accountFolder, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotInCluster, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s/ca.crt: no certificate in it", accountFolder)
	}
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: apiTimeout, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	return &API{
		Base:      "https://" + net.JoinHostPort(host, port),
		Client:    &http.Client{Transport: transport, Timeout: apiTimeout},
		TokenFile: path.Join(accountFolder, "token"),
	}, nil
}

// get decodes the object or list at a path into out.
func (a *API) get(ctx context.Context, path string, query url.Values, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Base+path+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "gpuscale-exporter")
	if a.TokenFile != "" {
		token, err := os.ReadFile(a.TokenFile)
		if err != nil {
			return fmt.Errorf("GET %s: %w", path, err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := a.Client.Do(request)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxObjects+1))
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	switch {
	case len(body) > maxObjects:
		return fmt.Errorf("GET %s: more than %d MiB", path, maxObjects>>20)
	case response.StatusCode == http.StatusNotFound:
		return fmt.Errorf("GET %s: %w", path, errNotFound)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("GET %s: %s: %s", path, response.Status, message(body))
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// message is what a Status object says, shortened.
func message(body []byte) string {
	var status struct{ Message string }
	if json.Unmarshal(body, &status) != nil || status.Message == "" {
		return "no reason given"
	}
	return status.Message[:min(len(status.Message), 300)]
}

// ofNode selects a node's own objects.
func ofNode(node string) url.Values {
	// "0" lets the API server answer from its memory instead of etcd.
	return url.Values{"fieldSelector": {"spec.nodeName=" + node}, "resourceVersion": {"0"}}
}
