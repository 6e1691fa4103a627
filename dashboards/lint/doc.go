// Package lint checks boards without a Prometheus, for mistakes that Grafana accepts and that mislead users.
// Each rule has a name. A rule comes from a mistake in published boards, or from Grafana's dashboard-linter
// (read at 4d0844b of June 2026; no module proxy serves it). Two rules of the linter are left out, because
// our boards select by node, pool and namespace, not by job and instance.
package lint
