// Package forward sends requests for external metrics without a rule to another
// metrics API server, such as KEDA's: a cluster registers only one server for
// external.metrics.k8s.io. It owns the target, the identity, the timeout and the
// limits. It never forwards a metric that has a rule or a request that was
// forwarded before, and never invents an answer.
package forward
