// Package lint finds problems of a board without Prometheus: what Grafana accepts and
// misleads users. Each rule has a name and stands for a mistake of published boards, or is one
// of Grafana's dashboard-linter (read at 4d0844b of June 2026; it is no module that a proxy
// has). Two of the linter's rules are left out: our boards choose by node, pool and namespace,
// not by job and instance.
package lint
