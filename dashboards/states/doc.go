// Package states records what a Prometheus would hold of five clusters: a healthy one,
// one of MIG GPUs, one with a storm of XIDs, an empty one, and one whose exporters stop.
// The series come from our own programs: the exporter's compiler over its replay source,
// the autoscaler's loop and planner over a simulated world, and what exporter and adapter
// say about themselves after they ran for a moment. The tests that judge boards, rules, alerts and the
// report by them are here, so that one test program records.
//
// Nothing is stored: thirty simulated minutes are recorded when they are first used, so
// that tests run on the programs' current series. Fakes replace what is not ours (GPUs,
// kubelet, scheduler, Prometheus' scrape loop, model servers, kube-state-metrics); their
// files name them.
package states
