// Package kube is the plumbing between a program and the Kubernetes API: where
// the API server is, how fast it may be asked, where client libraries log. It
// knows no resource of ours and never lists or watches.
package kube
