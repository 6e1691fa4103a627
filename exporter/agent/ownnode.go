package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/exporter/pods"
)

const (
	// watchFor is how long the API server keeps one watch; the request ends watchSlack
	// later.
	watchFor   = 5 * time.Minute
	watchSlack = 10 * time.Second
	// maxEvent bounds an event of the watch: a Node with the images of a year on it
	// has less.
	maxEvent = 4 << 20
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
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations"`
}

func (o *ownNode) path() string { return "/api/v1/nodes/" + url.PathEscape(o.name) }

// get reads the Node's metadata.
func (o *ownNode) get(ctx context.Context) (metadata, error) {
	var object struct{ Metadata metadata }
	err := o.api.Get(ctx, o.path(), metadataOnly, &object)
	return object.Metadata, err
}

// condition reads the condition GPUHealthy and when its status changed; the
// zero verdict where absent.
func (o *ownNode) condition(ctx context.Context) (verdict, time.Time, error) {
	var object struct {
		Status struct {
			Conditions []struct {
				Type, Status, Reason, Message string
				LastTransitionTime            time.Time
			}
		}
	}
	if err := o.api.Get(ctx, o.path()+"/status", "", &object); err != nil {
		return verdict{}, time.Time{}, err
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
	ctx, cancel := context.WithTimeout(ctx, watchFor+watchSlack)
	defer cancel()
	query := url.Values{
		"watch": {"true"}, "fieldSelector": {"metadata.name=" + o.name}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(int(watchFor.Seconds()))},
	}
	body, err := o.api.Do(ctx, pods.Call{Method: http.MethodGet, Path: "/api/v1/nodes?" + query.Encode(), Accept: metadataOnly})
	if err != nil {
		return err
	}
	defer body.Close()
	limited := &io.LimitedReader{R: body}
	events := json.NewDecoder(limited)
	for {
		limited.N = maxEvent
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
	return o.api.Write(ctx, http.MethodPatch, o.path()+"/status", "application/strategic-merge-patch+json", patch)
}

// createEvent adds an Event. Events of Nodes are in the namespace default.
func (o *ownNode) createEvent(ctx context.Context, event any) error {
	return o.api.Write(ctx, http.MethodPost, "/api/v1/namespaces/default/events", "application/json", event)
}
