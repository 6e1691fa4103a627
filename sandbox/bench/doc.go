// Package bench measures CPU time and memory of the gpuscale-autoscaler program on a real control plane:
// while idle beside full nodes, and during a burst of pods. KWOK fakes the nodes, sandbox/neighbours fakes
// Cluster API's controllers, and type exporters fakes Prometheus.
package bench
