// Package kube configures a program's access to the Kubernetes API (the API server's address, client limits, logging of
// client libraries) and reads what pods and nodes state of themselves. It knows no resource of gpuscale and never lists
// or watches.
package kube
