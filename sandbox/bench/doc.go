// Package bench measures the CPU time and the memory of the gpuscale-autoscaler program on
// a real control plane: idle with full nodes, and during a burst of pods. KWOK fakes the
// nodes, sandbox/neighbours Cluster API's controllers, and type exporters Prometheus.
package bench
