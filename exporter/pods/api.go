package pods

import (
	"bytes"
	"cmp"
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

// API is the Kubernetes API. A node agent needs a few requests, all of its own
// node's objects, so it carries no client library.
type API struct {
	// Base is the API server: "https://10.0.0.1:443".
	Base string
	// Client has the server's certificates and no timeout: contexts bound requests.
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
		Client:    &http.Client{Transport: transport},
		TokenFile: path.Join(accountFolder, "token"),
	}, nil
}

// Call is one request. The default of Accept is JSON.
type Call struct {
	Method, Path        string
	Accept, ContentType string
	Content             []byte
}

// Do sends a request and returns the body of a successful answer. ctx bounds both.
func (a *API) Do(ctx context.Context, c Call) (_ io.ReadCloser, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s %s: %w", c.Method, c.Path, err)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, c.Method, a.Base+c.Path, bytes.NewReader(c.Content))
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "gpuscale-exporter")
	request.Header.Set("Accept", cmp.Or(c.Accept, "application/json"))
	if c.ContentType != "" {
		request.Header.Set("Content-Type", c.ContentType)
	}
	if a.TokenFile != "" {
		token, err := os.ReadFile(a.TokenFile)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := a.Client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 2 {
		return response.Body, nil
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return nil, errNotFound
	}
	return nil, fmt.Errorf("%s: %s", response.Status, message(response.Body))
}

// Get decodes the object or list at a path into out.
func (a *API) Get(ctx context.Context, path, accept string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	body, err := a.Do(ctx, Call{Method: http.MethodGet, Path: path, Accept: accept})
	if err != nil {
		return err
	}
	defer body.Close()
	limited := &io.LimitedReader{R: body, N: maxObjects}
	if err := json.NewDecoder(limited).Decode(out); limited.N == 0 {
		return fmt.Errorf("GET %s: more than %d MiB", path, maxObjects>>20)
	} else if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// Write sends an object.
func (a *API) Write(ctx context.Context, method, path, contentType string, object any) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	content, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	body, err := a.Do(ctx, Call{Method: method, Path: path, ContentType: contentType, Content: content})
	if err != nil {
		return err
	}
	return body.Close()
}

// ConfigMap reads one ConfigMap's data by its name.
func (a *API) ConfigMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	var object struct{ Data map[string]string }
	err := a.Get(ctx, "/api/v1/namespaces/"+url.PathEscape(namespace)+"/configmaps/"+url.PathEscape(name), "", &object)
	return object.Data, err
}

// message is the message of a Status object, shortened.
func message(body io.Reader) string {
	var status struct{ Message string }
	if json.NewDecoder(io.LimitReader(body, 1<<16)).Decode(&status) != nil || status.Message == "" {
		return "no reason given"
	}
	return status.Message[:min(len(status.Message), 300)]
}

// ofNode selects a node's own objects: a query.
func ofNode(node string) string {
	// "0" lets the API server answer from its cache instead of etcd.
	return "?" + url.Values{"fieldSelector": {"spec.nodeName=" + node}, "resourceVersion": {"0"}}.Encode()
}
