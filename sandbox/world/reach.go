package world

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// What follows is for tests that look behind a story.

// Cluster the world stands on: its programs can be killed and started again.
func (w *World) Cluster() *cluster.Cluster { return w.cluster }

// Client of the administrator.
func (w *World) Client() client.Client { return w.client }

// AdapterAddress is where the adapter itself listens, past the API server.
func (w *World) AdapterAddress() string { return w.adapter }
