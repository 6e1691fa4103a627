// Package states records what a Prometheus would hold of five clusters: a healthy
// one, one of MIG cards, one with a storm of XIDs, an empty one, and one whose
// exporters fall silent. The series come from our own programs: the exporter's
// compiler over its replay source, the autoscaler's loop and planner over a
// simulated world, the adapter's cache and provider over what was recorded so far.
// Boards, rules and alerts are tested on them.
//
// Nothing is stored: thirty simulated minutes are recorded when they are first
// asked for, so that what is tested is what the programs say today. Doubles stand
// in for what is not ours (cards, kubelet, scheduler, Prometheus' scrape loop, model
// servers, kube-state-metrics), and their files say so.
package states
