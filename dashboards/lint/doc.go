// Package lint finds what is wrong with a board without asking Prometheus anything:
// what Grafana would accept and people would be misled by. Each rule has a name and
// stands for a mistake that published boards have made.
package lint
