// Package states records what a Prometheus would contain for five clusters: a healthy one, one with MIG GPUs,
// one with a storm of XIDs, an empty one, and one whose exporters stop. The series come from our own
// programs: the exporter's compiler over its replay source, the autoscaler's loop and planner over a
// simulated world, and the programs' own metrics after a short run. The tests of boards, rules, alerts and
// the report that use these recordings are in this package, so only one test program records.
//
// Nothing is stored. Thirty simulated minutes are recorded on first use, so tests run on the programs'
// current series. Fakes replace everything that is not ours (GPUs, kubelet, scheduler, Prometheus' scrape
// loop, model servers, kube-state-metrics); their files name them.
package states
