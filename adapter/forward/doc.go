// Package forward hands external metrics that nobody here knows to another
// metrics API server, such as KEDA's: a cluster registers one server for
// external.metrics.k8s.io. It owns where to, in whose name, for how long and
// how often; it never forwards what has a rule, never a request that was
// forwarded before, and never makes an answer up.
package forward
