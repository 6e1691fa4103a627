// Package events writes Events in events.k8s.io/v1: what is the same is counted
// in a series, what floods is merged and bounded, and nobody ever waits for it.
// It decides nothing and knows nothing of what it tells: an Event is news, never
// a record.
package events
