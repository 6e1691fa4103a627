package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

// A kind that is installed while the program runs is found.
func TestAKindInstalledLaterIsFound(t *testing.T) {
	var installed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		version := map[string]string{"groupVersion": "example.com/v1", "version": "v1"}
		switch {
		case req.URL.Path == "/api":
			reply(w, map[string]any{"kind": "APIVersions", "versions": []string{}})
		case req.URL.Path == "/apis" && installed.Load():
			reply(w, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{
				map[string]any{"name": "example.com", "versions": []any{version}, "preferredVersion": version},
			}})
		case req.URL.Path == "/apis":
			reply(w, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}})
		case req.URL.Path == "/apis/example.com/v1":
			reply(w, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.com/v1", "resources": []any{
				map[string]any{"name": "models", "singularName": "model", "namespaced": true, "kind": "Model", "verbs": []string{"get"}},
			}})
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	base := newBase(io.Discard)
	require.NoError(t, base.Flags().Parse([]string{"--lister-kubeconfig=" + kubeconfigOf(t, server.URL), "--discovery-interval=10ms"}))
	mapper, err := restMapper(t.Context(), base)
	require.NoError(t, err)
	models := schema.GroupVersionResource{Group: "example.com", Resource: "models"}
	if kind, err := mapper.KindFor(models); err == nil {
		t.Fatalf("%v is known before it is installed", kind)
	}
	installed.Store(true)
	await.For(t, time.Minute, "the installed kind", func() error {
		kind, err := mapper.KindFor(models)
		if err == nil && kind.Kind != "Model" {
			err = fmt.Errorf("it is a %s", kind.Kind)
		}
		return err
	})
}
