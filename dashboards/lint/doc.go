// Package lint finds problems of a board without Prometheus: what Grafana accepts and
// misleads users. Each rule has a name and stands for a mistake of published boards.
package lint
