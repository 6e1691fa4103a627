// Package certificate issues the adapter's serving certificate and keeps its CA in the
// objects that callers verify it by: caBundle of APIServices, and a ConfigMap for
// Prometheus. It owns the pair, which never leaves the process, and these fields. It
// never reads a Secret, and never writes another field.
package certificate
