// Package events writes Events of events.k8s.io/v1. Repeated Events are counted in a
// series, floods are merged and bounded, and callers never block. Events may be lost:
// they are notifications, not records.
package events
