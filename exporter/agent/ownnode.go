package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/pods"
)

const (
	// requestTimeout bounds a request but for the watch.
	requestTimeout = 10 * time.Second
	// watchFor is how long the API server holds one watch.
	watchFor = 5 * time.Minute
	// maxAnswer bounds an answer or an event of the watch: a Node with the images
	// of a year on it has less.
	maxAnswer = 4 << 20
	// metadataOnly spares the rest of the Node; a server that cannot do it sends all.
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// ownNode is the Kubernetes API as far as this node may reach it. Its methods
// are all the requests that the agent makes.
type ownNode struct {
	api  *pods.API
	name string
}

// metadata is the part of a Node that is read.
type metadata struct {
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations"`
}

func (o *ownNode) path() string { return "/api/v1/nodes/" + url.PathEscape(o.name) }

// get reads the Node's metadata.
func (o *ownNode) get(ctx context.Context) (metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := o.do(ctx, call{method: http.MethodGet, path: o.path(), accept: metadataOnly})
	if err != nil {
		return metadata{}, err
	}
	defer body.Close()
	var object struct{ Metadata metadata }
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&object); err != nil {
		return metadata{}, fmt.Errorf("reading the node %s: %w", o.name, err)
	}
	return object.Metadata, nil
}

// condition reads the condition GPUHealthy and when its status changed; the
// zero verdict where the Node has none.
func (o *ownNode) condition(ctx context.Context) (verdict, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := o.do(ctx, call{method: http.MethodGet, path: o.path() + "/status"})
	if err != nil {
		return verdict{}, time.Time{}, err
	}
	defer body.Close()
	var object struct {
		Status struct {
			Conditions []struct {
				Type, Status, Reason, Message string
				LastTransitionTime            time.Time
			}
		}
	}
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&object); err != nil {
		return verdict{}, time.Time{}, fmt.Errorf("reading the status of the node %s: %w", o.name, err)
	}
	for _, c := range object.Status.Conditions {
		if c.Type == ConditionType {
			return verdict{c.Status, c.Reason, c.Message}, c.LastTransitionTime, nil
		}
	}
	return verdict{}, time.Time{}, nil
}

// watch calls changed with the Node's metadata after each change since a
// version, until the API server ends the watch, which is no error.
func (o *ownNode) watch(ctx context.Context, version string, changed func(metadata)) error {
	ctx, cancel := context.WithTimeout(ctx, watchFor+requestTimeout)
	defer cancel()
	query := url.Values{
		"watch": {"true"}, "fieldSelector": {"metadata.name=" + o.name}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(int(watchFor.Seconds()))},
	}
	body, err := o.do(ctx, call{method: http.MethodGet, path: "/api/v1/nodes?" + query.Encode(), accept: metadataOnly})
	if err != nil {
		return err
	}
	defer body.Close()
	limited := &io.LimitedReader{R: body}
	events := json.NewDecoder(limited)
	for {
		limited.N = maxAnswer
		var event struct {
			Type   string
			Object struct {
				Metadata metadata
				Message  string
			}
		}
		switch err := events.Decode(&event); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("watching the node %s: %w", o.name, err)
		case event.Type == "ERROR":
			return fmt.Errorf("watching the node %s: %s", o.name, event.Object.Message)
		case event.Type == "ADDED" || event.Type == "MODIFIED":
			changed(event.Object.Metadata)
		}
	}
}

// patchStatus merges into the Node by its status, which may change annotations
// too and nothing of the spec: no label, no taint, no cordon.
func (o *ownNode) patchStatus(ctx context.Context, patch any) error {
	return o.write(ctx, http.MethodPatch, o.path()+"/status", "application/strategic-merge-patch+json", patch)
}

// createEvent adds an Event. Those of Nodes lie in the namespace default.
func (o *ownNode) createEvent(ctx context.Context, event any) error {
	return o.write(ctx, http.MethodPost, "/api/v1/namespaces/default/events", "application/json", event)
}

func (o *ownNode) write(ctx context.Context, method, path, contentType string, object any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	content, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	body, err := o.do(ctx, call{method: method, path: path, contentType: contentType, content: content})
	if err != nil {
		return err
	}
	return body.Close()
}

// call is one request; accept is JSON where nothing is said.
type call struct {
	method, path        string
	accept, contentType string
	content             []byte
}

// do sends a request and returns the body of an answer that says success.
func (o *ownNode) do(ctx context.Context, c call) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, c.method, o.api.Base+c.path, bytes.NewReader(c.content))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", c.method, c.path, err)
	}
	request.Header.Set("User-Agent", "gpuscale-exporter")
	request.Header.Set("Accept", cmp.Or(c.accept, "application/json"))
	if c.contentType != "" {
		request.Header.Set("Content-Type", c.contentType)
	}
	if o.api.TokenFile != "" {
		// The kubelet renews it.
		token, err := os.ReadFile(o.api.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", c.method, c.path, err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	// The client's own timeout would end a watch; the context bounds the rest.
	client := http.Client{Transport: o.api.Client.Transport}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", c.method, c.path, err)
	}
	if response.StatusCode/100 == 2 {
		return response.Body, nil
	}
	defer response.Body.Close()
	return nil, fmt.Errorf("%s %s: %s: %s", c.method, c.path, response.Status, reasonOf(response.Body))
}

// reasonOf is what a Status object says, shortened.
func reasonOf(body io.Reader) string {
	var status struct{ Message string }
	if json.NewDecoder(io.LimitReader(body, 1<<16)).Decode(&status) != nil || status.Message == "" {
		return "no reason given"
	}
	return status.Message[:min(len(status.Message), 300)]
}
